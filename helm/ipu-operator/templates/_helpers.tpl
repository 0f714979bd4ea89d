{{/* SPDX-License-Identifier: Apache-2.0 */}}
{{/*
Names, labels and images. Those of them that look at values with older names call ipu-operator.values themselves.
*/}}

{{- define "ipu-operator.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end }}

{{/* What all names begin with: 35 characters at most, as the longest that follows has 28. */}}
{{- define "ipu-operator.fullname" -}}
{{- $given := .Values.fullnameOverride -}}
{{- if kindIs "invalid" $given -}}{{- $given = .Values.fullNameOverride -}}{{- end -}}
{{- if $given -}}
{{- $given | trunc 35 | trimSuffix "-" -}}
{{- else if and (kindIs "invalid" $given) (not .Values.nameOverride) -}}
ipu-operator
{{- else -}}
{{- $name := include "ipu-operator.name" . -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 35 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 35 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "ipu-operator.chart" -}}
{{- printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" -}}
{{- end }}

{{/* Of all objects. */}}
{{- define "ipu-operator.labels" -}}
helm.sh/chart: {{ include "ipu-operator.chart" . }}
app.kubernetes.io/name: {{ include "ipu-operator.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: ipu-operator
{{- end }}

{{/* By which Pods are found: (dict "root" . "component" "controller-manager" or "vipu-proxy"). */}}
{{- define "ipu-operator.selectorLabels" -}}
app.kubernetes.io/name: {{ include "ipu-operator.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "ipu-operator.isSplit" -}}
{{- if eq .Values.topology "split" }}true{{ end -}}
{{- end }}

{{/* The component whose Pods have the role proxy. */}}
{{- define "ipu-operator.proxyComponent" -}}
{{- ternary "vipu-proxy" "controller-manager" (eq .Values.topology "split") -}}
{{- end }}

{{/* Accounts. In the topology combined there is one. */}}
{{- define "ipu-operator.controllerServiceAccountName" -}}
{{- include "ipu-operator.values" . -}}
{{- $account := .Values.controller.serviceAccount -}}
{{- $account.name | default (ternary (printf "%s-controller-manager" (include "ipu-operator.fullname" .)) "default" $account.create) -}}
{{- end }}

{{- define "ipu-operator.proxyServiceAccountName" -}}
{{- include "ipu-operator.values" . -}}
{{- $account := .Values.vipuProxy.serviceAccount -}}
{{- if eq .Values.topology "combined" -}}
{{- include "ipu-operator.controllerServiceAccountName" . -}}
{{- else -}}
{{- $account.name | default (ternary (printf "%s-vipu-proxy" (include "ipu-operator.fullname" .)) "default" $account.create) -}}
{{- end -}}
{{- end }}

{{/* Whether to make the permissions of the controller, and of the proxy: "true" or nothing. */}}
{{- define "ipu-operator.controllerRbac" -}}
{{- include "ipu-operator.values" . -}}
{{- if .Values.controller.rbac.create }}true{{ end -}}
{{- end }}

{{- define "ipu-operator.proxyRbac" -}}
{{- include "ipu-operator.values" . -}}
{{- if .Values.vipuProxy.rbac.create }}true{{ end -}}
{{- end }}

{{/* A Service's type; the guides spelt it clusterIP. */}}
{{- define "ipu-operator.serviceType" -}}
{{- ternary "ClusterIP" . (eq (lower .) "clusterip") -}}
{{- end }}

{{/* Annotations, labels or a node selector: text, also where --set made a number or a boolean of it. */}}
{{- define "ipu-operator.strings" -}}
{{- range $key, $value := . }}
{{ $key }}: {{ $value | toString | quote }}
{{- end }}
{{- end }}

{{/* A tag as text, also where helm took it for a number. */}}
{{- define "ipu-operator.tag" -}}
{{- if and (kindIs "float64" .) (eq (floor .) .) -}}{{ int64 . }}{{- else -}}{{ . }}{{- end -}}
{{- end }}

{{/* The registry that a repository begins with (a dot, a port or localhost before its first slash), or nothing. */}}
{{- define "ipu-operator.ownRegistry" -}}
{{- $first := splitList "/" . | first -}}
{{- if and (contains "/" .) (or (contains "." $first) (contains ":" $first) (eq $first "localhost")) -}}{{ $first }}{{- end -}}
{{- end }}

{{/* An image's fields: (dict "root" . "image" {what is said of this one}), as JSON: registry, repository, tag, digest, pullPolicy. */}}
{{- define "ipu-operator.imageParts" -}}
{{- $image := deepCopy .root.Values.image -}}
{{- range $key, $value := .image -}}
{{- if $value -}}{{- $_ := set $image $key $value -}}{{- end -}}
{{- end -}}
{{/* A tag of its own isn't meant for the digest that all have. */}}
{{- if and .image.tag (not .image.digest) -}}{{- $_ := set $image "digest" "" -}}{{- end -}}
{{- $_ := set $image "tag" (include "ipu-operator.tag" ($image.tag | default .root.Chart.AppVersion)) -}}
{{- $registry := .root.Values.global.imageRegistry | default (include "ipu-operator.ownRegistry" $image.repository) | default $image.registry -}}
{{- $loaded := eq ($registry | default "") "localhost" -}}
{{- if and $loaded $image.digest (not $image.pullPolicy) -}}
{{- fail (include "ipu-operator.noDigest" (dict "key" "image.digest" "policy" "image.pullPolicy")) -}}
{{- end -}}
{{- if not $image.pullPolicy -}}
{{- $_ := set $image "pullPolicy" (ternary "IfNotPresent" "Always" (or (not (empty $image.digest)) $loaded)) -}}
{{- end -}}
{{- $image | toJson -}}
{{- end }}

{{/* Kubelets look for the name with the digest, which an image has when it was pulled by it. */}}
{{- define "ipu-operator.noDigest" -}}
{{ .key }}: a digest goes with a registry, and from localhost nothing can be pulled; an image that was imported on the nodes is there by its tag alone. Name the registry that has it (global.imageRegistry or image.registry), or leave the digest out; where every node has the image by that digest too, say so by {{ .policy }}: Never
{{- end }}

{{/* (dict "root" . "selector" {…}): with the architecture of the image, unless the selector has one. */}}
{{- define "ipu-operator.nodeSelector" -}}
{{- $selector := deepCopy .selector -}}
{{- with .root.Values.image.architecture -}}
{{- if not (hasKey $selector "kubernetes.io/arch") -}}{{- $_ := set $selector "kubernetes.io/arch" . -}}{{- end -}}
{{- end -}}
{{- with $selector -}}
nodeSelector:
  {{- include "ipu-operator.strings" . | trim | nindent 2 }}
{{- end -}}
{{- end }}

{{/* A repository that begins with a registry needs none. */}}
{{- define "ipu-operator.reference" -}}
{{- $registry := .parts.registry -}}
{{- $repository := .parts.repository -}}
{{- with include "ipu-operator.ownRegistry" $repository -}}
{{- $registry = . -}}
{{- $repository = trimPrefix (printf "%s/" .) $repository -}}
{{- end -}}
{{- $registry = .root.Values.global.imageRegistry | default $registry -}}
{{- if $registry }}{{ trimSuffix "/" $registry }}/{{ end }}{{ $repository }}
{{- if .parts.digest }}@{{ .parts.digest }}{{ else }}:{{ .parts.tag }}{{ end }}
{{- end }}

{{- define "ipu-operator.image" -}}
{{- include "ipu-operator.reference" (dict "root" .root "parts" (include "ipu-operator.imageParts" . | fromJson)) -}}
{{- end }}

{{- define "ipu-operator.pullPolicy" -}}
{{- (include "ipu-operator.imageParts" . | fromJson).pullPolicy -}}
{{- end }}

{{/* The image with ipu-launcher: the operator's own, unless one is given. A tag may stand in launcherImage too. */}}
{{- define "ipu-operator.launcherImage" -}}
{{- $global := .Values.global -}}
{{- $given := include "ipu-operator.tag" ($global.launcherImageTag | default "") -}}
{{- if not $global.launcherImage -}}
{{- include "ipu-operator.image" (dict "root" . "image" (dict "tag" $given)) -}}
{{- else -}}
{{- $image := $global.launcherImage -}}
{{- $parts := dict "repository" $image "tag" ($given | default .Chart.AppVersion) -}}
{{- if contains "@" $image -}}
{{- $parts = dict "repository" (splitList "@" $image | first) "digest" (splitList "@" $image | last) -}}
{{- $registry := $global.imageRegistry | default (include "ipu-operator.ownRegistry" $parts.repository) -}}
{{- if and (eq ($registry | default "") "localhost") (ne ($global.launcherImagePullPolicy | default "") "Never") -}}
{{- fail (include "ipu-operator.noDigest" (dict "key" "global.launcherImage" "policy" "global.launcherImagePullPolicy")) -}}
{{- end -}}
{{- else if contains ":" (splitList "/" $image | last) -}}
{{- $tag := splitList ":" $image | last -}}
{{- $parts = dict "repository" (trimSuffix (printf ":%s" $tag) $image) "tag" ($given | default $tag) -}}
{{- end -}}
{{- include "ipu-operator.reference" (dict "root" . "parts" $parts) -}}
{{- end -}}
{{- end }}

{{- define "ipu-operator.imagePullSecrets" -}}
{{- with .Values.global.imagePullSecrets -}}
imagePullSecrets:
  {{- range ternary (list .) . (kindIs "map" .) }}
  - name: {{ if kindIs "map" . }}{{ .name }}{{ else }}{{ . }}{{ end }}
  {{- end }}
{{- end }}
{{- end }}
