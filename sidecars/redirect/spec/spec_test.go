package spec

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

func TestTheSpecSurvivesTheEnvironment(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ports := rapid.SliceOfN(rapid.Uint16Range(1, 15000), 1, 20)
		s := Spec{
			All:    rapid.Bool().Draw(t, "all"),
			Except: Normalize(rapid.SliceOfN(rapid.Uint16Range(1, 65535), 0, 20).Draw(t, "except")),
			To:     15006,
			Mode:   rapid.SampledFrom([]Mode{ModeAuto, ModeNFT, ModeLegacy}).Draw(t, "mode"),
		}
		if !s.All {
			s.Ports = Normalize(ports.Draw(t, "ports"))
		}
		if rapid.Bool().Draw(t, "outgoing") {
			s.Outgoing, s.Done = rapid.Uint32Range(1, 1<<32-1).Draw(t, "user"), "/done"
			s.Mode = rapid.SampledFrom([]Mode{ModeAuto, ModeNFT}).Draw(t, "mode of outgoing")
		}
		env := s.Env()
		back, err := Parse(func(name string) string { return env[name] })
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(s, back, cmpopts.EquateEmpty()); diff != "" {
			t.Error(diff)
		}
	})
}

func TestParse(t *testing.T) {
	cases := map[string]struct {
		ports, except, to, mode string
		want                    Spec
		err                     string
	}{
		"blanks, repetitions and any order are put right": {
			ports: " 9090, 80,,80 ", to: "15006", want: Spec{Ports: []uint16{80, 9090}, To: 15006, Mode: ModeAuto}},
		"all ports but some": {
			ports: "all", except: "15006,15021", to: "15006", want: Spec{All: true, Except: []uint16{15006, 15021}, To: 15006, Mode: ModeAuto}},
		"a variable that got lost is not everything": {ports: "", to: "15006", err: "no port to redirect"},
		"a word is not a port":                       {ports: "http", to: "15006", err: `"http" is not a port`},
		"a port above the highest":                   {ports: "65536", to: "15006", err: "not a port"},
		"port zero":                                  {ports: "0", to: "15006", err: "not a port"},
		"no destination":                             {ports: "80", to: "", err: EnvTo},
		"two destinations":                           {ports: "80", to: "1,2", err: EnvTo},
		"with legacy iptables": {
			ports: "80", to: "15006", mode: " legacy", want: Spec{Ports: []uint16{80}, To: 15006, Mode: ModeLegacy}},
		"a mode that does not exist": {ports: "80", to: "15006", mode: "ebpf", err: EnvMode + `: "ebpf" is no way to redirect: use auto, nft or legacy`},
		"the sidecar's own port":     {ports: "15006", to: "15006", err: "cannot be redirected to itself"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			env := map[string]string{EnvPorts: c.ports, EnvExcept: c.except, EnvTo: c.to, EnvMode: c.mode}
			got, err := Parse(func(name string) string { return env[name] })
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("error %v, want one with %q", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestOutgoingConnectionsThatCannotBeRedirected(t *testing.T) {
	for says, change := range map[string]map[string]string{
		"legacy iptables":    {EnvMode: "legacy", EnvOutgoing: "7441"},
		"other than root":    {EnvOutgoing: "0"},
		"set " + EnvOutgoing: {EnvDone: "/done"},
	} {
		env := Spec{All: true, To: 1}.Env()
		maps.Copy(env, change)
		if _, err := Parse(func(name string) string { return env[name] }); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v: %v, want %q", change, err, says)
		}
	}
}
