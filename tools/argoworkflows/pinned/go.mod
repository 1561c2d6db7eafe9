module switchyard.dev/tools/argoworkflows/pinned

go 1.26.6
