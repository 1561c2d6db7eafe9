package keeper

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"path"
	"strconv"
	"strings"
	"time"

	"switchyard.dev/routeserver/table"
	"switchyard.dev/sidecars/devmesh"
	"switchyard.dev/sidecars/redirect/spec"
)

// Config is what a sidecar is run with.
type Config struct {
	// Proxy is what Envoy's bootstrap is made from.
	Proxy devmesh.Config
	// XDSAddress is host:port of the route server's xDS endpoint. Default
	// devmesh.DefaultXDSAddress.
	XDSAddress string
	// Trust are the authorities, as PEM, that must have signed a route server's certificate.
	// Later ones are learned from route servers. Empty: connect without TLS.
	Trust string
	// TokenFile holds the pod's token; it is read for each stream. Default: where
	// the contract mounts it.
	TokenFile string
	// Envoy is the binary. Default devmesh.EnvoyPath.
	Envoy string
	// Workers is how many worker threads Envoy has. Default 2.
	Workers int
	// Level is the least level that is logged, of Envoy too. Default info.
	Level slog.Level
	// Logger takes what happens. Default: none.
	Logger *slog.Logger
	// PodIP is the address at which the workload's ports are probed. Default:
	// loopback, where an application that listens at the pod's address alone is
	// not found.
	PodIP netip.Addr
	// DrainMin and DrainMax bound the time between the order to end and the end.
	// Default 3 s and 25 s.
	DrainMin, DrainMax time.Duration
}

// Validate returns all errors of the configuration at once, or nil. Defaults count as given.
func (c Config) Validate() error {
	c = c.withDefaults()
	wrong := []error{c.Proxy.Validate()}
	if _, port, err := net.SplitHostPort(c.XDSAddress); err != nil || port == "" {
		wrong = append(wrong, fmt.Errorf("the route server's address %q (%s) is not host:port", c.XDSAddress, devmesh.EnvXDSAddress))
	}
	if c.Workers < 0 || c.DrainMin < 0 || c.DrainMax < c.DrainMin {
		wrong = append(wrong, errors.New("workers and times must not be negative, nor DrainMax less than DrainMin"))
	}
	return errors.Join(wrong...)
}

func (c Config) withDefaults() Config {
	c.Proxy = c.Proxy.WithDefaults()
	c.XDSAddress = cmp.Or(c.XDSAddress, devmesh.DefaultXDSAddress)
	c.TokenFile = cmp.Or(c.TokenFile, path.Join(devmesh.TokenPath, devmesh.TokenFile))
	c.Envoy = cmp.Or(c.Envoy, devmesh.EnvoyPath)
	c.Workers = cmp.Or(c.Workers, 2)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	c.PodIP = cmp.Or(c.PodIP, netip.AddrFrom4([4]byte{127, 0, 0, 1}))
	if c.DrainMin == 0 && c.DrainMax == 0 {
		c.DrainMin, c.DrainMax = 3*time.Second, 25*time.Second
	}
	return c
}

// FromEnvironment reads a Config from the container's environment, with the names of the
// contract. The function get is os.Getenv. The error names the invalid variable.
func FromEnvironment(get func(string) string) (Config, error) {
	c := Config{
		Proxy: devmesh.Config{
			Workload: table.Workload{
				Kind: get(devmesh.EnvWorkloadKind), Namespace: get(devmesh.EnvWorkloadNamespace), Name: get(devmesh.EnvWorkloadName),
			},
			NodeID:  strings.Trim(get(devmesh.EnvPodNamespace)+"/"+get(devmesh.EnvPodName)+"/"+get(devmesh.EnvPodUID), "/"),
			RunPath: get(devmesh.EnvRunPath),
			Edge:    get(devmesh.EnvEdge) == devmesh.EdgeYes,
		},
		XDSAddress: get(devmesh.EnvXDSAddress),
		Trust:      get(devmesh.EnvTrust),
		TokenFile:  get(devmesh.EnvTokenFile),
		Envoy:      get(devmesh.EnvEnvoy),
	}
	var err error
	if c.Proxy.PlainPorts, err = plainPorts(get(devmesh.EnvPlainPorts)); err != nil {
		return Config{}, err
	}
	if limit := get(devmesh.EnvMemoryLimit); limit != "" {
		bytes, err := strconv.ParseUint(limit, 10, 64)
		if err != nil || bytes == 0 {
			return Config{}, fmt.Errorf("%s is %q, which is no number of bytes", devmesh.EnvMemoryLimit, limit)
		}
		c.Proxy.HeapBytes = devmesh.HeapOf(bytes)
	}
	if ip := get(devmesh.EnvPodIP); ip != "" {
		if c.PodIP, err = netip.ParseAddr(ip); err != nil {
			return Config{}, fmt.Errorf("%s is %q, which is no IP address", devmesh.EnvPodIP, ip)
		}
	}
	if level := get(devmesh.EnvLogLevel); level != "" {
		if err := c.Level.UnmarshalText([]byte(level)); err != nil {
			return Config{}, fmt.Errorf("%s is %q: use debug, info, warn or error", devmesh.EnvLogLevel, level)
		}
	}
	return c, c.Validate()
}

// plainPorts reads a list of ports: nil when it is absent, so that the default
// holds, and empty for devmesh.NoPlainPorts.
func plainPorts(text string) ([]uint16, error) {
	if strings.TrimSpace(text) == devmesh.NoPlainPorts {
		return []uint16{}, nil
	}
	ports, err := spec.Split(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w, or %q", devmesh.EnvPlainPorts, err, devmesh.NoPlainPorts)
	}
	return ports, nil
}
