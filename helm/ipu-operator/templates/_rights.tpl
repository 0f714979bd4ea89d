{{/* SPDX-License-Identifier: Apache-2.0 */}}
{{/*
Who gets permissions: the roles' rules are nearly the same in both topologies; whose account they are given to isn't.
*/}}

{{/* Whether to make the proxy's: "true" or nothing. */}}
{{- define "ipu-operator.rights.proxy" -}}
{{- if eq .Values.topology "combined" }}{{ include "ipu-operator.controllerRbac" . }}{{ else }}{{ include "ipu-operator.proxyRbac" . }}{{ end -}}
{{- end }}

{{/* A binding: (dict "root" . "kind" "Role" or "ClusterRole" "name" of role and binding "account" NAME). */}}
{{- define "ipu-operator.rights.binding" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ .kind }}Binding
metadata:
  name: {{ .name }}
  {{- if eq .kind "Role" }}
  namespace: {{ .root.Release.Namespace }}
  {{- end }}
  labels:
    {{- include "ipu-operator.labels" .root | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ .kind }}
  name: {{ .name }}
subjects:
- kind: ServiceAccount
  name: {{ .account }}
  namespace: {{ .root.Release.Namespace }}
{{- end }}

{{/* What every process needs in the operator's own namespace: (dict "config" {the operator's configuration} "lease" NAME). */}}
{{- define "ipu-operator.rights.own" -}}
# The operator's certificates and their authority: made, renewed, and made anew where it can't be used
- apiGroups: [""]
  resources: [secrets]
  resourceNames: [{{ .config.certificates.secret }}]
  verbs: [get, list, watch, patch, delete]
- apiGroups: [""]
  resources: [secrets] # what is made has no name yet when the API server judges it
  verbs: [create]
# Leadership
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [{{ .lease }}]
  verbs: [get, list, watch, patch]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [create]
{{- end }}
