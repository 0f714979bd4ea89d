/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the daemon holds, shared by daemon.c (wiring) and those that it wires.
 */
#ifndef IPU_DAEMON_INTERNAL_H
#define IPU_DAEMON_INTERNAL_H

#include <stdio.h>

#include "admission/registration.h"
#include "cert/cert.h"
#include "daemon/daemon.h"
#include "http/server.h"
#include "job/controller.h"
#include "kube/client.h"
#include "kube/event.h"
#include "kube/exec_helper.h"
#include "kube/lease.h"
#include "loop/backoff.h"
#include "loop/loop.h"
#include "net/net.h"
#include "node/advertise.h"
#include "node/extender.h"
#include "partition/controllers.h"
#include "partition/manager.h"
#include "partition/remote.h"
#include "pod/controller.h"
#include "proxy/proxy.h"
#include "vipu/fleet.h"

/* ---- sockets.c ---- */

#define SOCKETS_MAX 16

/* What the service manager has opened for us; fd -1: a listener has it. */
struct sockets {
	struct socket_given {
		const char *name;
		int fd;
	} items[SOCKETS_MAX];
	size_t n;
};

/* From the environment, which is rid of it: before anything forks. ERR_INVALID: a socket that this
 * configuration has no use for. */
int sockets_take(struct sockets *s, const struct config *c, struct err *err);
bool sockets_has(const struct sockets *s, const char *name);

struct listen_at {
	const char *name, *key; /* "partitions", "proxy.tlsListen" */
	const char *addr;       /* the key's value; "": it isn't listened at all */
	struct http_server *server;
	struct tls_config *tls;
	http_handler_fn *handler;
	void *arg;
};
/* On the sockets of that name, else on one of its own. */
int sockets_listen(struct sockets *s, const struct listen_at *at, unsigned *ret_port,
		   struct err *err);

/* ---- notify.c ---- */

/* The service manager's ear; NULL in all of these: there is none. */
struct notify;

struct daemon {
	struct config *config; /* main's; its strings change in reload.c */
	struct config_source source;
	struct sockets sockets;
	struct notify *notify;
	const char *ns;
	struct loop *loop;
	struct net *net;
	struct kube_config *kube_config;
	struct kube_exec_helper *helper;
	struct kube_client *kube;
	/* For the tokens of the partitions' port alone: a flood of bad ones keeps none of our own
	 * calls waiting. Metrics have another (scrape.c). */
	struct kube_client *reviews;
	struct kube_recorder *recorder;
	struct vipu_fleet *fleet;
	struct controllers *controllers; /* its list */

	/* lead.c */
	char *lease_name;
	struct kube_lease *lease;        /* NULL: leads without one */
	bool leading;                    /* acts; else it follows */
	struct partitions *partitions;   /* made anew whenever leading changes */
	struct partitions *outgoing;     /* a follower's, shown until partitions has been read */
	bool following;                  /* partitions is a follower's */
	struct partition_remote *remote; /* without the role proxy, instead of partitions */
	struct job_controller *jobs;     /* NULL without the controller role, or while following */
	struct pod_controller *pods;     /* the same */
	struct loop_work yield_work;     /* another process has taken the tracker */
	struct loop_timer return_timer;  /* … and when this one tries again */
	struct {                         /* tell.c */
		struct loop_timer timer;
		int64_t looked_ms; /* mono */
		bool changed;
		uint32_t parts, told; /* bits: whose Pods may have changed; were told once */
	} tell;
	struct backoff superseded;

	struct advert *advert; /* NULL: nobody here advertises, or asks which Nodes reach what */
	struct heed *heed;     /* NULL: Nodes' conditions aren't looked at, or not here */

	struct certfile *proxy_ca_file; /* NULL: none is given */
	struct tls_config *proxy_trust; /* whom to trust as the proxy, without that role */
	struct http_client *http;       /* to other replicas */
	struct proxy *proxy;
	struct cert *cert;              /* the operator's own; NULL: it isn't needed */
	struct tls_config *own_tls;     /* of it, as it's served */
	const char *ports_file;         /* to be written once all listeners are open; NULL */
	FILE *ports_out;                /* what becomes it; NULL: not open any more, or none */
	struct webhook *webhook;        /* NULL without the role */
	struct certfile *webhook_files; /* NULL: the operator's own certificate */
	struct admission_registration *registration;
	struct certfile *proxy_tls;          /* NULL: no certificate files are given */
	struct scrape *scrape;               /* NULL without metrics.secure */
	struct observe_fleet *observe_fleet; /* NULL without the role proxy */
	struct node_role *node;              /* NULL without the role */
	struct guard *guard;
	struct health *health;
	struct http_server *server;
	unsigned proxy_port, proxy_tls_port, health_port, metrics_port;
	struct loop_signal sigterm, sigint, sighup;
	struct loop_timer stop_timer; /* the end, whatever is still under way */
	int64_t stopping_from_ms;
	bool stopping, server_stopped, webhook_stopped, scheduler_stopped, lease_given_back;
};

/* ---- lead.c ---- */

/* daemon.c: one of the servers has stopped, or the Lease is given back; after all the loop ends. */
void daemon_stopped_a_part(struct daemon *d);

/* Begins to contend, with the parts of a follower; or leads at once where no Lease is wanted. */
int lead_start(struct daemon *d, struct err *err);
void lead_reload(struct daemon *d); /* the configuration has changed: to those that act by it */
/* A proxy_pods_fn; arg: the daemon. Of IPUJobs, in the process that runs them. */
void lead_pods(void *arg, const struct partition_owner *owner, uint32_t instance, proxy_pod_fn *fn,
	       void *fn_arg);
/* A proxy_helds_fn, likewise; *due_ms as of job_controller_each_held. */
bool lead_helds(void *arg, proxy_held_fn *fn, void *fn_arg, size_t *ret_more);
bool lead_helds_until(const struct daemon *d, proxy_held_fn *fn, void *fn_arg, int64_t *due_ms);
void lead_give_back(struct daemon *d); /* a clean stop: stops acting, then lets a successor in */
void lead_stop(struct daemon *d);      /* frees all that lead_start made */

/* worker.* and launcher.*, as Pods are made from them; strings are the configuration's. */
struct job_pod_settings daemon_pod_settings(const struct config *c);
char *daemon_proxy_url(const struct daemon *d); /* proxy.url, or the Service's; the caller's */

/* ---- webhook.c ---- */

/* The handler and a server of its own, which doesn't listen yet. */
int webhook_start(struct daemon *d, struct err *err);
/* Opens the listener; with one that is open, tls is for the connections to come. */
int webhook_serve(struct daemon *d, struct tls_config *tls, struct err *err);
unsigned webhook_port(const struct webhook *w); /* 0: it isn't open, or w is NULL */
bool webhook_ready(const struct webhook *w, struct err *why);
/* http_server_leave; at_once: idle connections end now. w may be NULL. */
void webhook_leave(struct webhook *w, bool leaves, bool at_once);
/* A clean stop: what is accepted is answered; then daemon_stopped_a_part. */
void webhook_drain(struct daemon *d);
void webhook_reload(struct daemon *d);
void webhook_stop(struct daemon *d);

/* Takes the variables out of the environment: before anything forks. ERR_INVALID, ERR_IO. */
int notify_take(struct daemon *d, struct err *err);
void notify_start(struct notify *n);     /* the loop is there: from its first turn on it's READY */
void notify_reloading(struct notify *n); /* … until notify_reloaded; problem NULL: it went well */
void notify_reloaded(struct notify *n, const struct err *problem);
void notify_stopping(struct notify *n);
void notify_free(struct notify *n);

/* ---- daemon.c ---- */

enum proxy_page daemon_page(const struct config *c);
int daemon_listen_partitions(struct daemon *d, struct tls_config *tls, struct err *err);
int daemon_listen_metrics(struct daemon *d, struct tls_config *tls, struct err *err);
int daemon_write_ports(struct daemon *d, struct err *err); /* ERR_IO */
bool daemon_wants_authority(const struct config *c);
/* How long its end may take. */
int64_t daemon_stop_ms(const struct daemon *d);

/* ---- authority.c ---- */

int authority_start(struct daemon *d, struct err *err);
/* Whether listeners open only once it has a certificate; then it writes the ports. */
bool authority_is_awaited(const struct daemon *d);
void authority_stop(struct daemon *d);

/* ---- certfile.c ---- */

/* Certificate and key of a listener, from PEM files that are read again when they change (both
 * NULL: none); and, with ca_path (NULL or "": none), authorities. Errors: ERR_INVALID, ERR_IO. */
struct certfile;
int certfile_new(struct loop *loop, const char *cert_path, const char *key_path,
		 const char *ca_path, struct certfile **ret, struct err *err);
struct tls_config *certfile_tls(const struct certfile *f); /* borrowed */
struct str certfile_ca_pem(const struct certfile *f);      /* borrowed; empty without ca_path */
/* From now on they are followed. from was in use until now, and is still there; it's to as well
 * where only the authorities have changed. */
typedef void certfile_fn(void *arg, const struct tls_config *from, struct tls_config *to);
void certfile_follow(struct certfile *f, certfile_fn *on_change, void *arg);
void certfile_look(struct certfile *f); /* soon, not only when it's time; NULL is fine */
void certfile_free(struct certfile *f); /* NULL is fine */

/* ---- node.c ---- */

void node_start(struct daemon *d); /* before the list of controllers is asked for */
void node_list(void *arg, const struct vipu_address_list *list); /* arg: the daemon */
void node_reload(struct daemon *d);
bool node_ready(const struct daemon *d, struct err *why);
void node_stop(struct daemon *d);

/* ---- register.c ---- */

/* Certificate files of the webhooks, where they are given: opens their listener. */
int register_open(struct daemon *d, struct err *err);
/* The listener serves, or there is a new authority: from the first time on the webhook
 * configurations are kept right. */
void register_changed(struct daemon *d);
bool register_ready(const struct daemon *d, struct err *why);
/* Whether an IPUJob is refused where no webhook answers. */
bool register_fails_closed(const struct daemon *d);
void register_again(struct daemon *d); /* by a configuration that has changed */
void register_stop(struct daemon *d);

/* ---- advert.c ---- */

/* What the role proxy has to do with Nodes: advertised IPUs, and the scheduler's extender. */
int advert_start(struct daemon *d, struct err *err);
struct certfile *advert_clients(const struct daemon *d); /* NULL: whoever asks may */
/* Leading has changed, or the list of controllers is known now. */
void advert_led(struct daemon *d);
/* Opens the extender's listener; with one that is open, given is for the connections to come. */
int advert_serve(struct daemon *d, struct tls_config *given, struct err *err);
bool advert_serves(const struct daemon *d);   /* it has one, or is to have one */
unsigned advert_port(const struct daemon *d); /* 0: it isn't open */
void advert_serve_pods(struct daemon *d);     /* the proxy is there */
bool advert_ready(const struct daemon *d, struct err *why);
void advert_leave(struct daemon *d, bool leaves); /* http_server_leave */
/* A clean stop: what is accepted is answered; then daemon_stopped_a_part. */
void advert_drain(struct daemon *d, unsigned deadline_ms);
void advert_stop(struct daemon *d);

struct nodes *advert_nodes(const struct daemon *d); /* NULL: it watches none */

/* ---- heed.c ---- */

/* Leading has changed; before the partition layer is made anew. */
void heed_led(struct daemon *d);
void heed_stop(struct daemon *d);

/* ---- tell.c ---- */

void tell_start(struct daemon *d);
/* What is told of a job may be something else now; with of_pod its Pods, too. uid NULL: of any. */
void tell_changed(struct daemon *d, const char *uid, bool of_pod);
void tell_stop(struct daemon *d);

/* ---- guard.c ---- */

/* From now on the process is confined (core/confine.h), as the configuration says. */
struct guard *guard_new(struct loop *loop, const struct config *c, bool awaits_ports);
void guard_free(struct guard *g); /* the confinement stays; NULL is fine */

/* ---- reload.c ---- */

void reload_start(struct daemon *d); /* SIGHUP reads the configuration again */

/* ---- logging.c ---- */

void logging_use(const struct config *c);

/* ---- advice.c ---- */

/* Warns of keys that do nothing as the others are. */
void config_advise(const struct config *c);

/* ---- observe.c ---- */

void observe_start(struct daemon *d);
void observe_stop(struct daemon *d);
void observe_reply_metrics(struct http_exchange *ex); /* the answer itself */

/* ---- observe_fleet.c ---- */

struct observe_fleet *observe_fleet_new(struct daemon *d); /* NULL without a fleet */
void observe_fleet_collect(struct observe_fleet *o);       /* NULL is fine, here and below */
void observe_fleet_led(struct observe_fleet *o);           /* leading has changed */
void observe_fleet_free(struct observe_fleet *o);

/* ---- health.c ---- */

void health_start(struct daemon *d);
void health_handle(struct http_exchange *ex, void *arg); /* /healthz, /readyz; arg: the daemon */
/* Whether a new process would do better, and why: something in this one doesn't get on. */
bool health_is_stuck(struct daemon *d, struct err *why);
/* Whether all parts can be used; if not, which can't, and why. */
bool health_is_ready(const struct daemon *d, struct err *why);
void health_stop(struct daemon *d);

/* ---- scrape.c ---- */

/* With metrics.secure: who may read the metrics, and the certificate files where they are given. */
int scrape_start(struct daemon *d, struct err *err);
struct certfile *scrape_files(const struct scrape *s); /* NULL: none are given */
struct tls_config *scrape_tls(const struct scrape *s); /* NULL: the operator's own certificate */
void scrape_follow(struct scrape *s, certfile_fn *on_change, void *arg);
void scrape_handle(struct http_exchange *ex, void *arg); /* /metrics; arg: the daemon */
void scrape_stop(struct daemon *d);

#endif
