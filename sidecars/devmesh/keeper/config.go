package keeper

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"switchyard.dev/routeserver/table"
	"switchyard.dev/sidecars/devmesh"
)

// Config is what a sidecar is run with.
type Config struct {
	// Proxy is what Envoy's bootstrap is made from.
	Proxy devmesh.Config
	// XDSAddress is host:port of the route server's xDS endpoint. Default
	// devmesh.DefaultXDSAddress.
	XDSAddress string
	// Trust are the authorities, as PEM, that route servers must be vouched for by; those
	// that follow are learned from them. Empty: route servers are spoken to plain.
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
	// ReadinessAddress is where readiness is served. Default: all addresses, port
	// devmesh.ReadinessPort.
	ReadinessAddress string
	// PodIP is the address at which the workload's ports are probed. Default:
	// loopback, where an application that listens at the pod's address alone is
	// not found.
	PodIP netip.Addr
	// FirstRoutes is how long Envoy waits for the route server's first answer
	// before it starts with what there is. Default 500 ms.
	FirstRoutes time.Duration
	// DrainMin and DrainMax bound the time between the order to end and the end.
	// Default 3 s and 25 s.
	DrainMin, DrainMax time.Duration
}

// Validate returns what is wrong with the configuration, all of it at once, or nil.
// Defaults count as given.
func (c Config) Validate() error {
	c = c.withDefaults()
	wrong := []error{c.Proxy.Validate()}
	if _, port, err := net.SplitHostPort(c.XDSAddress); err != nil || port == "" {
		wrong = append(wrong, fmt.Errorf("the route server's address %q (%s) is not host:port", c.XDSAddress, devmesh.EnvXDSAddress))
	}
	if c.Workers < 0 || c.FirstRoutes < 0 || c.DrainMin < 0 || c.DrainMax < c.DrainMin {
		wrong = append(wrong, errors.New("workers and times must not be negative, nor DrainMax less than DrainMin"))
	}
	return errors.Join(wrong...)
}

func (c Config) withDefaults() Config {
	c.Proxy = c.Proxy.WithDefaults()
	if c.XDSAddress == "" {
		c.XDSAddress = devmesh.DefaultXDSAddress
	}
	if c.TokenFile == "" {
		c.TokenFile = path.Join(devmesh.TokenPath, devmesh.TokenFile)
	}
	if c.Envoy == "" {
		c.Envoy = devmesh.EnvoyPath
	}
	if c.Workers == 0 {
		c.Workers = 2
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.ReadinessAddress == "" {
		c.ReadinessAddress = fmt.Sprintf(":%d", devmesh.ReadinessPort)
	}
	if !c.PodIP.IsValid() {
		c.PodIP = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	if c.FirstRoutes == 0 {
		c.FirstRoutes = 500 * time.Millisecond
	}
	if c.DrainMin == 0 && c.DrainMax == 0 {
		c.DrainMin, c.DrainMax = 3*time.Second, 25*time.Second
	}
	return c
}

// FromEnvironment reads a Config from the container's environment, as the
// contract names it. The function get is os.Getenv. The error says which
// variable is wrong.
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

// listed returns the words of a list with commas; empty ones do not count.
func listed(text string) []string {
	var words []string
	for word := range strings.SplitSeq(text, ",") {
		if word = strings.TrimSpace(word); word != "" {
			words = append(words, word)
		}
	}
	return words
}

// noPorts is the word for a list of ports that is empty on purpose.
const noPorts = "none"

// plainPorts reads a list of ports: nil when it is absent, so that the default
// holds, and empty for noPorts.
func plainPorts(text string) ([]uint32, error) {
	words := listed(text)
	if len(words) == 1 && words[0] == noPorts {
		return []uint32{}, nil
	}
	var ports []uint32
	for _, word := range words {
		port, err := strconv.ParseUint(word, 10, 16)
		if err != nil || port == 0 {
			return nil, fmt.Errorf("%s has %q, which is no port: give numbers from 1 to 65535, or %q", devmesh.EnvPlainPorts, word, noPorts)
		}
		if !slices.Contains(ports, uint32(port)) {
			ports = append(ports, uint32(port))
		}
	}
	return ports, nil
}
