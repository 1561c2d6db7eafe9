package proxy_test

import (
	"io"
	"testing"

	"switchyard.dev/eventbus/program"
	"switchyard.dev/tunnels/proxy"
)

// The version of the defaults decides whether SOCKS5 asks clients of a port-forward for a credential,
// unless a flag does.
func TestSOCKS5AuthenticationOnLoopback(t *testing.T) {
	for _, c := range []struct {
		defaults string
		args     []string
		open     bool
	}{
		{"", nil, false}, {"2", nil, false}, {"1", nil, true},
		{"1", []string{"--socks5-loopback=credentials"}, false}, {"2", []string{"--socks5-loopback=anonymous"}, true},
	} {
		s, err := proxy.ParseSettings(c.args, func(name string) string {
			if name == program.DefaultsVariable {
				return c.defaults
			}
			return ""
		}, io.Discard)
		if err != nil || s.Config.OpenLoopback != c.open {
			t.Errorf("defaults %q, %v: open is %t, %v", c.defaults, c.args, s.Config.OpenLoopback, err)
		}
	}
	if _, err := proxy.ParseSettings([]string{"--socks5-loopback=open"}, func(string) string { return "" }, io.Discard); err == nil {
		t.Error("a word that means nothing is taken")
	}
}
