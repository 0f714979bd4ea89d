{{/* SPDX-License-Identifier: Apache-2.0 */}}
{{/*
Older names of values. Each template begins with {{ include "ipu-operator.values" . }}: from there on .Values has them all by
their newest names, with the defaults that values.yaml leaves out.
*/}}

{{/* {"v": value} of .path (a.b.c) in the map .in; empty where nothing is there, or nothing but an empty string, list or map. */}}
{{- define "ipu-operator.given" -}}
{{- $at := .in -}}
{{- range splitList "." .path -}}
{{- if and (kindIs "map" $at) (hasKey $at .) -}}{{- $at = get $at . -}}{{- else -}}{{- $at = "" -}}{{- end -}}
{{- end -}}
{{- if or $at (kindIs "bool" $at) (has (kindOf $at) (list "int" "int64" "float64")) -}}{{ dict "v" $at | toJson }}{{- end -}}
{{- end }}

{{/* Gives .path in the map .in the value .v. */}}
{{- define "ipu-operator.put" -}}
{{- $at := .in -}}
{{- $parts := splitList "." .path -}}
{{- range initial $parts -}}
{{- if not (kindIs "map" (get $at .)) -}}{{- $_ := set $at . dict -}}{{- end -}}
{{- $at = get $at . -}}
{{- end -}}
{{- $_ := set $at (last $parts) .v -}}
{{- end }}

{{/* Newest name, older names, default. */}}
{{- define "ipu-operator.names" -}}
- {to: global.imagePullSecrets, from: [imagePullSecrets], default: []}
- {to: global.vipuControllers, from: [vipuControllers], default: ""}
- {to: global.launcherImagePullPolicy, from: [global.laucherImagePullPolicy, laucherImagePullPolicy], default: IfNotPresent}
- {to: vipuClusterName, from: [vipuCLusterName], default: ""}
- {to: controller.image.repository, from: [admissionWebhooks.image.repository], default: ""}
- {to: controller.image.tag, from: [admissionWebhooks.image.tag], default: ""}
- {to: controller.image.pullPolicy, from: [admissionWebhooks.image.pullPolicy], default: ""}
- {to: controller.serviceAccount.create, from: [serviceAccount.create], default: true}
- {to: controller.serviceAccount.annotations, from: [serviceAccount.annotations], default: {}}
- {to: controller.serviceAccount.name, from: [controllers.serviceAccount.name, serviceAccount.name], default: ""}
- {to: controller.rbac.create, from: [rbac.create], default: true}
- {to: controller.podSecurityContext, from: [controller.podSecurityPolicyContext], default: {}}
- {to: vipuProxy.proxyPort, from: [proxyPort, controllerPort], default: 8080}
- {to: vipuProxy.serviceAccount.create, from: [serviceAccount.create], default: true}
- {to: vipuProxy.serviceAccount.annotations, from: [serviceAccount.annotations], default: {}}
- {to: vipuProxy.serviceAccount.name, from: [serviceAccount.name], default: ""}
- {to: vipuProxy.rbac.create, from: [rbac.create], default: true}
- {to: vipuProxy.service.type, from: [service.type], default: ClusterIP}
- {to: vipuProxy.service.port, from: [service.port], default: 80}
- {to: vipuProxy.podSecurityContext, from: [vipuProxy.podSecurityPolicyContext, podSecurityContext, podSecurityPolicyContext], default: {}}
{{- range list "resources" "podAnnotations" "securityContext" "nodeSelector" "affinity" }}
- {to: vipuProxy.{{ . }}, from: [{{ . }}], default: {}}
{{- end }}
- {to: vipuProxy.tolerations, from: [tolerations], default: []}
{{- end }}

{{/*
What values.yaml says, but for "" and what is named above. A section or key without a value, as it's left where all below it is
commented out, takes its default away from helm: here it is again.
*/}}
{{- define "ipu-operator.defaults" -}}
topology: split
vipuServerAddr: ""
vipuServerPort: 8090
global: {}
image: {registry: localhost, repository: ipu-operator}
controller:
  replicas: 1
  hostNetwork: false
  develLogs: false
  service: {type: ClusterIP, port: 8443}
  image: {}
  podAnnotations: {}
  podLabels: {}
  securityContext: {}
  resources: {}
  tolerations: []
vipuProxy:
  replicas: 1
  proxyPartitionTrackerConfigMap: ipu-partitions-tracker
  proxyReadTimeoutSeconds: 30
  proxyWriteTimeoutSeconds: 300
  proxyIdleTimeoutSeconds: 60
  logLevel: 2
  page: usage
  image: {}
  podLabels: {}
autoscaling: {enabled: false, minReplicas: 1, maxReplicas: 5, targetCPUUtilizationPercentage: 80}
admissionWebhooks:
  scope: ""
  timeoutSeconds: 30
  failurePolicy: Fail
  port: 8443
  service: {servicePort: 443, type: ClusterIP}
  patch: {enabled: true}
  certificate: {}
rbac: {aggregate: true}
worker: {hostNetwork: true, rdmaNetwork: "", rdmaResource: "", rdmaResourceCount: 1, ipcLock: auto}
node:
  privileged: true
  tolerations: [{operator: Exists}]
  resources: {}
  healthPort: 8082
  metricsListen: ""
operatorConfig: {}
crds: {upgrade: true}
uninstall: {cleanNodes: true}
metrics:
  serviceMonitor: {enabled: false, interval: 30s}
  prometheusRule: {enabled: false}
  dashboard: {enabled: false, labels: {grafana_dashboard: "1"}}
networkPolicy: {partitionsFrom: [], statisticsFrom: []}
ipuVisibility: {advertiseOnMaster: false}
extendedScheduler: {}
{{- end }}

{{/* Gives the map .in what .of has beside it. Who takes single labels away means it. */}}
{{- define "ipu-operator.complete" -}}
{{- range $key, $v := .of -}}
{{- $there := get $.in $key -}}
{{- if or (not (hasKey $.in $key)) (kindIs "invalid" $there) -}}
{{- $_ := set $.in $key (deepCopy $v) -}}
{{- else if and (kindIs "map" $v) (kindIs "map" $there) (ne $key "labels") -}}
{{- include "ipu-operator.complete" (dict "in" $there "of" $v) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "ipu-operator.values" -}}
{{- $values := .Values -}}
{{- if not (hasKey $values "newestNames") -}}
{{- include "ipu-operator.complete" (dict "in" $values "of" (include "ipu-operator.defaults" . | fromYaml)) -}}
{{- range $section, $v := $values.operatorConfig -}}
{{- if kindIs "invalid" $v -}}{{- $_ := unset $values.operatorConfig $section -}}{{- end -}}
{{- end -}}
{{- range include "ipu-operator.names" . | fromYamlArray -}}
{{- $found := include "ipu-operator.given" (dict "in" $values "path" .to) -}}
{{- range .from -}}
{{- if not $found -}}{{- $found = include "ipu-operator.given" (dict "in" $values "path" .) -}}{{- end -}}
{{- end -}}
{{- $v := .default -}}
{{- if $found -}}{{- $v = ($found | fromJson).v -}}{{- end -}}
{{- include "ipu-operator.put" (dict "in" $values "path" .to "v" $v) -}}
{{- end -}}
{{- $_ := set $values "newestNames" true -}}
{{- include "ipu-operator.checkTogether" $values -}}
{{- end -}}
{{- end }}

{{/* Refuses values of which each is right, but not all together. */}}
{{- define "ipu-operator.checkTogether" -}}
{{- $isCombined := eq .topology "combined" -}}
{{- $proxyPort := int .vipuProxy.proxyPort -}}
{{- $webhookPort := int .admissionWebhooks.port -}}
{{- if has $proxyPort (list 8081 8444 8445 8446) -}}
{{- fail (printf "vipuProxy.proxyPort: %d is taken in the Pods: 8081 is health's, 8444 the metrics', 8445 the partitions', 8446 the scheduler's" $proxyPort) -}}
{{- end -}}
{{- if or (has $webhookPort (list 8081 8444)) (and $isCombined (has $webhookPort (list 8445 8446))) -}}
{{- fail (printf "admissionWebhooks.port: %d is taken in the Pods: 8081 is health's, 8444 the metrics', 8445 the partitions', 8446 the scheduler's" $webhookPort) -}}
{{- end -}}
{{- if and $isCombined (eq $webhookPort $proxyPort) -}}
{{- fail (printf "admissionWebhooks.port: %d is vipuProxy.proxyPort too, and with topology combined both are the same Pods'" $webhookPort) -}}
{{- end -}}
{{- if eq (int .vipuProxy.service.port) 443 -}}
{{- fail "vipuProxy.service.port: 443 is that Service's port for partitions" -}}
{{- end -}}
{{- if and .extendedScheduler.enabled (eq (int .vipuProxy.service.port) 8446) -}}
{{- fail "vipuProxy.service.port: 8446 is that Service's port for the scheduler" -}}
{{- end -}}
{{- if and (or .extendedScheduler.clientCASecret .extendedScheduler.clientNames) (not .extendedScheduler.enabled) -}}
{{- fail "extendedScheduler.clientCASecret: nobody is asked for a certificate without extendedScheduler.enabled" -}}
{{- end -}}
{{- if and .extendedScheduler.clientNames (not .extendedScheduler.clientCASecret) -}}
{{- fail "extendedScheduler.clientNames: are of certificates: set extendedScheduler.clientCASecret" -}}
{{- end -}}
{{- if and .ipuVisibility.advertiseOnMaster (eq .ipuVisibility.advertise "none") -}}
{{- fail "ipuVisibility.advertiseOnMaster: nothing is advertised anywhere with advertise none" -}}
{{- end -}}
{{- if and $isCombined .autoscaling.enabled -}}
{{- fail "autoscaling.enabled: there's no Deployment of the proxy to scale with topology combined; set controller.replicas" -}}
{{- end -}}
{{- if and .autoscaling.enabled (gt (int .autoscaling.minReplicas) (int .autoscaling.maxReplicas)) -}}
{{- fail (printf "autoscaling.minReplicas: %d is more than autoscaling.maxReplicas, %d" (int .autoscaling.minReplicas) (int .autoscaling.maxReplicas)) -}}
{{- end -}}
{{- if not .image.repository -}}
{{- fail "image.repository: is empty; the image's name is ipu-operator, unless your registry has it by another one" -}}
{{- end -}}
{{- with .admissionWebhooks.certificate -}}
{{- if and $.admissionWebhooks.patch.enabled (or .secretName .caBundle .annotations) -}}
{{- fail "admissionWebhooks.certificate: is used for nothing while the operator makes its own: set admissionWebhooks.patch.enabled to false" -}}
{{- end -}}
{{- end -}}
{{- if not (dig "leaderElection" "enabled" true .operatorConfig) -}}
{{- fail "operatorConfig.leaderElection.enabled: can't be false: in an upgrade the new Pod works beside the old one, and both would act" -}}
{{- end -}}
{{- if and .node.metricsListen (eq (regexFind "[0-9]+$" .node.metricsListen) (toString (int .node.healthPort))) -}}
{{- fail (printf "node.metricsListen: %d is node.healthPort too" (int .node.healthPort)) -}}
{{- end -}}
{{- if and .node.metricsSecure (not .node.metricsListen) -}}
{{- fail "node.metricsSecure: the nodes give no metrics: set node.metricsListen" -}}
{{- end -}}
{{- if and .node.enabled .node.metricsSecure .metrics.serviceMonitor.enabled (not .node.metricsCertificate) -}}
{{- fail "node.metricsSecure: Prometheus would show its token to whoever answers at a node's port: set node.metricsCertificate, or metrics.serviceMonitor.enabled to false" -}}
{{- end -}}
{{- if and .node.metricsCertificate (not .node.metricsSecure) -}}
{{- fail "node.metricsCertificate: is used for nothing without node.metricsSecure" -}}
{{- end -}}
{{- $config := .operatorConfig -}}
{{- range $key, $why := dict "name" "each of the DaemonSet's Pods is about the Node that it's on" "root" "the DaemonSet's Pods have the nodes' folders at /host" -}}
{{- if hasKey (get $config "node" | default dict) $key -}}
{{- fail (printf "operatorConfig.node.%s: can't be set: %s" $key $why) -}}
{{- end -}}
{{- end -}}
{{- range $path, $use := dict "proxy.listen" "set vipuProxy.proxyPort" "webhook.listen" "set admissionWebhooks.port"
    "proxy.tlsListen" "its port is 8445" "health.listen" "its port is 8081" "metrics.listen" "its port is 8444"
    "scheduler.listen" "set extendedScheduler.enabled" -}}
{{- $part := get $config (splitList "." $path | first) -}}
{{- if and (kindIs "map" $part) (hasKey $part (splitList "." $path | last)) -}}
{{- fail (printf "operatorConfig.%s: the Pods' ports, probes and Services are the chart's; %s" $path $use) -}}
{{- end -}}
{{- end -}}
{{- end }}
