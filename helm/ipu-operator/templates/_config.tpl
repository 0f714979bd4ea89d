{{/* SPDX-License-Identifier: Apache-2.0 */}}
{{/* The operator's configuration file (doc/reference/configuration.md). One for all roles: what they do is in their arguments. */}}
{{- define "ipu-operator.config" -}}
{{- $full := include "ipu-operator.fullname" . -}}
{{- $ns := .Release.Namespace -}}
{{- $proxy := .Values.vipuProxy -}}
{{- $hooks := .Values.admissionWebhooks -}}
{{- $names := list -}}
{{- range list "webhook-svc" "vipu-proxy" "controller-manager-metrics" "vipu-proxy-metrics" -}}
{{- $names = append $names (printf "%s-%s.%s.svc" $full . $ns) -}}
{{- end -}}
{{- $webhook := dict
    "listen" (printf ":%d" (int $hooks.port))
    "mutatingConfiguration" (printf "%s-mutating-webhook-configuration" $full)
    "validatingConfiguration" (printf "%s-validating-webhook-configuration" $full) -}}
{{- if not $hooks.patch.enabled -}}
{{- $_ := set $webhook "certFile" "/etc/ipu-operator-webhook/tls.crt" -}}
{{- $_ := set $webhook "keyFile" "/etc/ipu-operator-webhook/tls.key" -}}
{{- if not (or $hooks.certificate.caBundle $hooks.certificate.annotations) -}}
{{- $_ := set $webhook "caFile" "/etc/ipu-operator-webhook/ca.crt" -}}
{{- end -}}
{{- end -}}
{{- $config := dict
    "operatorNamespace" $ns
    "controllersConfigMap" (printf "%s-vipu-controllers" $full)
    "vipu" (dict "serverAddr" .Values.vipuServerAddr "serverPort" .Values.vipuServerPort "clusterName" .Values.vipuClusterName)
    "worker" (deepCopy .Values.worker)
    "launcher" (dict "image" (include "ipu-operator.launcherImage" .) "imagePullPolicy" .Values.global.launcherImagePullPolicy)
    "tracker" (dict "configMap" $proxy.proxyPartitionTrackerConfigMap)
    "leaderElection" (dict "name" $full)
    "certificates" (dict "secret" (printf "%s-certificates" $full) "names" (join "," $names))
    "proxy" (dict
        "listen" (printf ":%d" (int $proxy.proxyPort))
        "url" (printf "https://%s-vipu-proxy.%s.svc:443" $full $ns)
        "controllerAccounts" (printf "system:serviceaccount:%s:%s" $ns (include "ipu-operator.controllerServiceAccountName" .))
        "readTimeoutSeconds" $proxy.proxyReadTimeoutSeconds
        "writeTimeoutSeconds" $proxy.proxyWriteTimeoutSeconds
        "idleTimeoutSeconds" $proxy.proxyIdleTimeoutSeconds
        "page" ($proxy.page | default "off"))
    "webhook" $webhook
    "metrics" (dict "listen" ":8444" "secure" true) -}}
{{- $visible := .Values.ipuVisibility -}}
{{- $advertised := $visible.advertise | default (ternary "whole" "none" $visible.advertiseOnMaster) -}}
{{- if ne $advertised "none" -}}
{{- $_ := set $config "advertise" (dict "ipus" $advertised "onControlPlane" $visible.advertiseOnMaster) -}}
{{- end -}}
{{- if .Values.extendedScheduler.enabled -}}
{{- $_ := set $config "scheduler" (dict "listen" ":8446") -}}
{{- with .Values.extendedScheduler -}}
{{- if .clientCASecret -}}
{{- $_ := set $config.scheduler "clientCAFile" "/etc/ipu-operator-scheduler/ca.crt" -}}
{{- end -}}
{{- if .clientNames -}}
{{- $_ := set $config.scheduler "clientNames" (join "," .clientNames) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if not .Values.node.enabled -}}
{{- $_ := set $config "node" (dict "silentSeconds" 0) -}}
{{- end -}}
{{- mergeOverwrite $config (deepCopy .Values.operatorConfig) | toYaml -}}
{{- end }}

{{/*
The list of V-IPU controllers as JSON: {name: of its ConfigMap, annotations: that this has now, isWritten, text: what it then says,
hash: of what the values say}. It's written the first time, and when the values have a list, another one than when it was last
written. Whoever renders without a cluster (helm template, Argo CD) can't see one that is there: then only a list of the values is. A list that is there is never replaced by none: values are easily left out in an upgrade, or in a new installation.
Without the annotation somebody else has made it, such as an earlier chart, with whose objects it would go.
*/}}
{{- define "ipu-operator.controllers" -}}
{{- $name := printf "%s-vipu-controllers" (include "ipu-operator.fullname" .) -}}
{{- $given := .Values.global.vipuControllers -}}
{{- $text := "" -}}
{{- if kindIs "slice" $given -}}
{{- $text = ternary (toYaml $given) "" (not (empty $given)) -}}
{{- else -}}
{{- $text = $given | trim -}}
{{- end -}}
{{- $hash := sha256sum $text -}}
{{- $there := lookup "v1" "ConfigMap" .Release.Namespace $name | default dict -}}
{{- $annotations := dig "metadata" "annotations" dict $there | default dict -}}
{{- $before := get $annotations "graphcore.ai/chart-values" -}}
{{- $isBlind := not (lookup "v1" "Namespace" "" "kube-system") -}}
{{- $isWritten := and (or (not $before) (and $text (ne $before $hash))) (or $text (not $isBlind)) -}}
{{- if not (and $isWritten $text) -}}{{- $text = dig "data" "controllers.yaml" "" $there -}}{{- end -}}
{{- dict "name" $name "annotations" $annotations "isWritten" (not (empty $isWritten)) "text" $text "hash" $hash | toJson -}}
{{- end }}
