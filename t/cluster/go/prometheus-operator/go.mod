module ipu-operator/t/cluster/prometheus-operator

go 1.26.0

// Nothing of it is built: its CustomResourceDefinitions are read.
require github.com/prometheus-operator/prometheus-operator v0.85.0
