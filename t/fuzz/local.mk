# SPDX-License-Identifier: Apache-2.0
#
# Fuzz targets, one a parser that reads what a peer or a person wrote (doc/design/fuzzing.md). With
# --enable-fuzzers libFuzzer drives them; else replay.c runs their corpora, for t/70-corpora.t.

if FUZZERS
fuzz_main = $(IPU_FUZZ_LIBS)
else
fuzz_main = libfuzz-replay.a
endif

check_LIBRARIES = libfuzz-replay.a libfuzz-json-fy.a
libfuzz_replay_a_SOURCES = t/fuzz/replay.c t/fuzz/fuzz.h

# libfyaml's JSON back-end under other names, beside yyjson's.
libfuzz_json_fy_a_SOURCES = $(libjson_fy_a_SOURCES) t/fuzz/json_text.c t/fuzz/json_text.h \
	t/fuzz/json_fy_names.h t/fuzz/fuzz.h
libfuzz_json_fy_a_CPPFLAGS = -include t/fuzz/json_fy_names.h $(AM_CPPFLAGS) $(FYAML_CFLAGS)

fuzz_programs = t/fuzz/admission_job_fuzz t/fuzz/admission_patch_fuzz t/fuzz/admission_review_fuzz t/fuzz/base64_fuzz t/fuzz/cert_pair_fuzz t/fuzz/clock_fuzz t/fuzz/config_fuzz t/fuzz/ctl_rdma_fuzz t/fuzz/exec_credential_fuzz \
	t/fuzz/grpc_status_fuzz t/fuzz/h2_session_fuzz t/fuzz/http_codec_fuzz \
	t/fuzz/http_headers_fuzz t/fuzz/http_url_fuzz t/fuzz/job_fuzz t/fuzz/job_pod_fuzz \
	t/fuzz/json_fuzz t/fuzz/kube_proxy_fuzz t/fuzz/kube_split_fuzz t/fuzz/kube_status_fuzz t/fuzz/kube_warning_fuzz \
	t/fuzz/kubeconfig_fuzz t/fuzz/launcher_status_fuzz t/fuzz/launcher_wire_fuzz t/fuzz/net_address_fuzz t/fuzz/net_tunnel_fuzz t/fuzz/node_extender_fuzz \
	t/fuzz/node_host_fuzz t/fuzz/node_netlink_fuzz t/fuzz/node_rdma_fuzz t/fuzz/node_uevent_fuzz \
	t/fuzz/partition_entry_fuzz t/fuzz/pod_inject_fuzz \
	t/fuzz/proxy_ask_fuzz \
	t/fuzz/sim_patch_fuzz t/fuzz/sim_selector_fuzz t/fuzz/trace_fuzz t/fuzz/vipu_address_fuzz \
	t/fuzz/vipu_codec_fuzz t/fuzz/ws_codec_fuzz t/fuzz/yaml_fuzz \
	t/fuzz/daemon_sockets_fuzz t/fuzz/metrics_accept_fuzz t/fuzz/partition_policy_fuzz t/fuzz/proxy_resume_fuzz t/fuzz/sim_target_fuzz \
	t/fuzz/launcher_words_fuzz t/fuzz/partition_list_fuzz t/fuzz/sim_token_fuzz t/fuzz/watched_fuzz
check_PROGRAMS += $(fuzz_programs)
t_fuzz_admission_job_fuzz_SOURCES = t/fuzz/admission_job_fuzz.c t/fuzz/fuzz.h
t_fuzz_admission_job_fuzz_LDADD = $(fuzz_main) $(admission_ldadd)
t_fuzz_admission_patch_fuzz_SOURCES = t/fuzz/admission_patch_fuzz.c t/fuzz/fuzz.h
t_fuzz_admission_patch_fuzz_LDADD = $(fuzz_main) libadmission.a $(sim_ldadd)
t_fuzz_admission_review_fuzz_SOURCES = t/fuzz/admission_review_fuzz.c t/fuzz/fuzz.h
t_fuzz_admission_review_fuzz_LDADD = $(fuzz_main) libadmission.a libpod.a $(sim_ldadd)
t_fuzz_base64_fuzz_SOURCES = t/fuzz/base64_fuzz.c t/fuzz/fuzz.h
t_fuzz_base64_fuzz_LDADD = $(fuzz_main) $(core_ldadd)
t_fuzz_cert_pair_fuzz_SOURCES = t/fuzz/cert_pair_fuzz.c t/fuzz/fuzz.h
t_fuzz_cert_pair_fuzz_CPPFLAGS = $(AM_CPPFLAGS) $(MBEDTLS_CFLAGS)
t_fuzz_cert_pair_fuzz_LDADD = $(fuzz_main) libcert.a $(kube_ldadd)
t_fuzz_clock_fuzz_SOURCES = t/fuzz/clock_fuzz.c t/fuzz/fuzz.h
t_fuzz_clock_fuzz_LDADD = $(fuzz_main) $(core_ldadd)
t_fuzz_daemon_sockets_fuzz_SOURCES = t/fuzz/daemon_sockets_fuzz.c t/fuzz/fuzz.h
t_fuzz_daemon_sockets_fuzz_LDADD = $(fuzz_main) $(daemon_ldadd)
t_fuzz_metrics_accept_fuzz_SOURCES = t/fuzz/metrics_accept_fuzz.c t/fuzz/fuzz.h
t_fuzz_metrics_accept_fuzz_LDADD = $(fuzz_main) $(core_ldadd)
t_fuzz_partition_list_fuzz_SOURCES = t/fuzz/partition_list_fuzz.c t/fuzz/fuzz.h
t_fuzz_partition_list_fuzz_LDADD = $(fuzz_main) $(partition_ldadd)
t_fuzz_partition_policy_fuzz_SOURCES = t/fuzz/partition_policy_fuzz.c t/fuzz/fuzz.h
t_fuzz_partition_policy_fuzz_LDADD = $(fuzz_main) $(partition_ldadd)
t_fuzz_proxy_resume_fuzz_SOURCES = t/fuzz/proxy_resume_fuzz.c t/fuzz/fuzz.h
t_fuzz_proxy_resume_fuzz_LDADD = $(fuzz_main) $(daemon_ldadd)
t_fuzz_sim_token_fuzz_SOURCES = t/fuzz/sim_token_fuzz.c t/fuzz/fuzz.h
t_fuzz_sim_token_fuzz_LDADD = $(fuzz_main) $(sim_ldadd)
t_fuzz_sim_target_fuzz_SOURCES = t/fuzz/sim_target_fuzz.c t/fuzz/fuzz.h
t_fuzz_sim_target_fuzz_LDADD = $(fuzz_main) $(sim_ldadd)
t_fuzz_config_fuzz_SOURCES = t/fuzz/config_fuzz.c t/fuzz/fuzz.h
t_fuzz_config_fuzz_LDADD = $(fuzz_main) $(daemon_ldadd)
t_fuzz_ctl_rdma_fuzz_SOURCES = t/fuzz/ctl_rdma_fuzz.c t/fuzz/fuzz.h
t_fuzz_ctl_rdma_fuzz_LDADD = $(fuzz_main) $(ctl_ldadd)
t_fuzz_exec_credential_fuzz_SOURCES = t/fuzz/exec_credential_fuzz.c t/fuzz/fuzz.h
t_fuzz_exec_credential_fuzz_LDADD = $(fuzz_main) $(kube_ldadd)
t_fuzz_grpc_status_fuzz_SOURCES = t/fuzz/grpc_status_fuzz.c t/fuzz/fuzz.h
t_fuzz_grpc_status_fuzz_LDADD = $(fuzz_main) $(grpc_ldadd)
t_fuzz_h2_session_fuzz_SOURCES = t/fuzz/h2_session_fuzz.c t/fuzz/fuzz.h
t_fuzz_h2_session_fuzz_LDADD = $(fuzz_main) $(h2_ldadd)
t_fuzz_http_codec_fuzz_SOURCES = t/fuzz/http_codec_fuzz.c t/fuzz/fuzz.h
t_fuzz_http_codec_fuzz_LDADD = $(fuzz_main) $(http_ldadd)
t_fuzz_http_headers_fuzz_SOURCES = t/fuzz/http_headers_fuzz.c t/fuzz/fuzz.h
t_fuzz_http_headers_fuzz_LDADD = $(fuzz_main) $(http_ldadd)
t_fuzz_http_url_fuzz_SOURCES = t/fuzz/http_url_fuzz.c t/fuzz/fuzz.h
t_fuzz_http_url_fuzz_LDADD = $(fuzz_main) $(http_ldadd)
t_fuzz_job_fuzz_SOURCES = t/fuzz/job_fuzz.c t/fuzz/fuzz.h
t_fuzz_job_fuzz_LDADD = $(fuzz_main) $(job_ldadd)
t_fuzz_job_pod_fuzz_SOURCES = t/fuzz/job_pod_fuzz.c t/fuzz/fuzz.h
t_fuzz_job_pod_fuzz_LDADD = $(fuzz_main) $(job_ldadd)
t_fuzz_json_fuzz_SOURCES = t/fuzz/json_fuzz.c t/fuzz/fuzz.h t/fuzz/json_text.c t/fuzz/json_text.h
t_fuzz_json_fuzz_LDADD = $(fuzz_main) libfuzz-json-fy.a $(core_ldadd)
t_fuzz_kube_proxy_fuzz_SOURCES = t/fuzz/kube_proxy_fuzz.c t/fuzz/fuzz.h
t_fuzz_kube_proxy_fuzz_LDADD = $(fuzz_main) $(kube_ldadd)
t_fuzz_kube_warning_fuzz_SOURCES = t/fuzz/kube_warning_fuzz.c t/fuzz/fuzz.h
t_fuzz_kube_warning_fuzz_LDADD = $(fuzz_main) $(kube_ldadd)
t_fuzz_kube_split_fuzz_SOURCES = t/fuzz/kube_split_fuzz.c t/fuzz/fuzz.h
t_fuzz_kube_split_fuzz_LDADD = $(fuzz_main) $(kube_ldadd)
t_fuzz_kube_status_fuzz_SOURCES = t/fuzz/kube_status_fuzz.c t/fuzz/fuzz.h
t_fuzz_kube_status_fuzz_LDADD = $(fuzz_main) $(kube_ldadd)
t_fuzz_kubeconfig_fuzz_SOURCES = t/fuzz/kubeconfig_fuzz.c t/fuzz/fuzz.h
t_fuzz_kubeconfig_fuzz_LDADD = $(fuzz_main) $(kube_ldadd)
t_fuzz_launcher_status_fuzz_SOURCES = t/fuzz/launcher_status_fuzz.c t/fuzz/fuzz.h
t_fuzz_launcher_status_fuzz_LDADD = $(fuzz_main) $(launcher_ldadd)
t_fuzz_launcher_words_fuzz_SOURCES = t/fuzz/launcher_words_fuzz.c t/fuzz/fuzz.h
t_fuzz_launcher_words_fuzz_LDADD = $(fuzz_main) $(launcher_ldadd)
t_fuzz_launcher_wire_fuzz_SOURCES = t/fuzz/launcher_wire_fuzz.c t/fuzz/fuzz.h
t_fuzz_launcher_wire_fuzz_LDADD = $(fuzz_main) $(launcher_ldadd)
t_fuzz_net_address_fuzz_SOURCES = t/fuzz/net_address_fuzz.c t/fuzz/fuzz.h
t_fuzz_net_address_fuzz_LDADD = $(fuzz_main) $(net_ldadd)
t_fuzz_net_tunnel_fuzz_SOURCES = t/fuzz/net_tunnel_fuzz.c t/fuzz/fuzz.h
t_fuzz_net_tunnel_fuzz_LDADD = $(fuzz_main) $(net_ldadd)
t_fuzz_node_host_fuzz_SOURCES = t/fuzz/node_host_fuzz.c t/fuzz/fuzz.h
t_fuzz_node_host_fuzz_LDADD = $(fuzz_main) $(node_ldadd)
t_fuzz_node_netlink_fuzz_SOURCES = t/fuzz/node_netlink_fuzz.c t/fuzz/fuzz.h
t_fuzz_node_netlink_fuzz_LDADD = $(fuzz_main) $(node_ldadd)
t_fuzz_node_rdma_fuzz_SOURCES = t/fuzz/node_rdma_fuzz.c t/fuzz/fuzz.h
t_fuzz_node_rdma_fuzz_LDADD = $(fuzz_main) $(node_ldadd)
t_fuzz_node_uevent_fuzz_SOURCES = t/fuzz/node_uevent_fuzz.c t/fuzz/fuzz.h
t_fuzz_node_uevent_fuzz_LDADD = $(fuzz_main) $(node_ldadd)
t_fuzz_partition_entry_fuzz_SOURCES = t/fuzz/partition_entry_fuzz.c t/fuzz/fuzz.h
t_fuzz_partition_entry_fuzz_LDADD = $(fuzz_main) $(partition_ldadd)
t_fuzz_node_extender_fuzz_SOURCES = t/fuzz/node_extender_fuzz.c t/fuzz/fuzz.h
t_fuzz_node_extender_fuzz_LDADD = $(fuzz_main) $(advert_ldadd)
t_fuzz_pod_inject_fuzz_SOURCES = t/fuzz/pod_inject_fuzz.c t/fuzz/fuzz.h
t_fuzz_pod_inject_fuzz_LDADD = $(fuzz_main) $(pod_ldadd)
t_fuzz_proxy_ask_fuzz_SOURCES = t/fuzz/proxy_ask_fuzz.c t/fuzz/fuzz.h
t_fuzz_proxy_ask_fuzz_LDADD = $(fuzz_main) $(proxy_ldadd)
t_fuzz_sim_patch_fuzz_SOURCES = t/fuzz/sim_patch_fuzz.c t/fuzz/fuzz.h
t_fuzz_sim_patch_fuzz_LDADD = $(fuzz_main) $(sim_ldadd)
t_fuzz_sim_selector_fuzz_SOURCES = t/fuzz/sim_selector_fuzz.c t/fuzz/fuzz.h
t_fuzz_sim_selector_fuzz_LDADD = $(fuzz_main) $(sim_ldadd)
t_fuzz_trace_fuzz_SOURCES = t/fuzz/trace_fuzz.c t/fuzz/fuzz.h
t_fuzz_trace_fuzz_LDADD = $(fuzz_main) $(core_ldadd)
t_fuzz_vipu_address_fuzz_SOURCES = t/fuzz/vipu_address_fuzz.c t/fuzz/fuzz.h
t_fuzz_vipu_address_fuzz_LDADD = $(fuzz_main) $(vipu_ldadd)
t_fuzz_vipu_codec_fuzz_SOURCES = t/fuzz/vipu_codec_fuzz.c t/fuzz/fuzz.h
t_fuzz_vipu_codec_fuzz_LDADD = $(fuzz_main) $(vipu_ldadd)
t_fuzz_watched_fuzz_SOURCES = t/fuzz/watched_fuzz.c t/fuzz/fuzz.h
t_fuzz_watched_fuzz_LDADD = $(fuzz_main) $(daemon_ldadd)
t_fuzz_ws_codec_fuzz_SOURCES = t/fuzz/ws_codec_fuzz.c t/fuzz/fuzz.h
t_fuzz_ws_codec_fuzz_LDADD = $(fuzz_main) $(http_ldadd)
t_fuzz_yaml_fuzz_SOURCES = t/fuzz/yaml_fuzz.c t/fuzz/json_text.c t/fuzz/json_text.h t/fuzz/fuzz.h
t_fuzz_yaml_fuzz_LDADD = $(fuzz_main) $(core_ldadd)

# Where libFuzzer keeps what it finds, from one run to the next: new inputs, and those that broke
# something.
FUZZ_SECONDS = 60
fuzz_found = t/fuzz/found
fuzz: $(fuzz_programs)
if FUZZERS
	@for program in $(fuzz_programs); do \
		name=`basename $$program _fuzz`; \
		$(MKDIR_P) $(fuzz_found)/$$name $(fuzz_found)/broken || exit 1; \
		echo "fuzz: $$name, $(FUZZ_SECONDS) s"; \
		$(test_environment) ./$$program -max_total_time=$(FUZZ_SECONDS) -timeout=10 \
			-rss_limit_mb=2048 -print_final_stats=1 \
			-artifact_prefix=$(fuzz_found)/broken/$$name- \
			$(fuzz_found)/$$name $(srcdir)/t/fuzz/corpus/$$name \
			</dev/null >$(fuzz_found)/$$name.log 2>&1 || \
			{ tail -n 40 $(fuzz_found)/$$name.log; exit 1; }; \
	done
else
	@echo "make fuzz: configure with --enable-fuzzers CC=clang" >&2; exit 1
endif

.PHONY: fuzz
