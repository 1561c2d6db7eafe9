module switchyard.dev/tools/argoworkflows/pinned

go 1.26.6

require github.com/argoproj/argo-workflows/v3 v3.6.5
