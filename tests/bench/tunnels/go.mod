module switchyard.dev/tests/bench/tunnels

go 1.26.0

require (
	github.com/hashicorp/yamux v0.1.2
	github.com/libp2p/go-yamux/v5 v5.1.0
	github.com/quic-go/quic-go v0.65.0
	golang.org/x/net v0.60.0
	golang.org/x/sys v0.49.0
)

require (
	github.com/libp2p/go-buffer-pool v0.0.2 // indirect
	golang.org/x/crypto v0.57.0 // indirect
	golang.org/x/text v0.42.0 // indirect
)
