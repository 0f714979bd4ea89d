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

{{- define "ipu-operator.values" -}}
{{- $values := .Values -}}
{{- if not (hasKey $values "newestNames") -}}
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
{{- end -}}
{{- end }}
