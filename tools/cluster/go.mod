module switchyard.dev/tools/cluster

go 1.26.0

require (
	github.com/google/go-cmp v0.7.0
	github.com/moby/sys/mountinfo v0.7.2
	golang.org/x/sync v0.24.0
	golang.org/x/sys v0.47.0
	sigs.k8s.io/yaml v1.6.0
	switchyard.dev/tools/image v0.0.0
)

require (
	github.com/google/go-containerregistry v0.22.1 // indirect
	github.com/klauspost/compress v1.19.2 // indirect
	github.com/opencontainers/go-digest v1.0.0 // indirect
	github.com/opencontainers/image-spec v1.1.1 // indirect
	go.yaml.in/yaml/v2 v2.4.2 // indirect
)

// The image of a pod's first process is packed as ours are.
replace switchyard.dev/tools/image => ../image
