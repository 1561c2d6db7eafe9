package identity_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"switchyard.dev/tools/switchyard/local/identity"
)

// plugin is a program that gives a new token each time that it runs: token-1, token-2, …
const plugin = `#!/bin/sh
n=$(($(cat "$0.n" 2>/dev/null || echo 0) + 1)); echo $n > "$0.n"
printf '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"token-%s"}}' $n
`

func write(t *testing.T, text string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestTheTokenThatAKubeconfigShows(t *testing.T) {
	exec := &clientcmdapi.ExecConfig{Command: write(t, plugin, 0o700), APIVersion: "client.authentication.k8s.io/v1", InteractiveMode: clientcmdapi.NeverExecInteractiveMode}
	broken := &clientcmdapi.ExecConfig{Command: write(t, "#!/bin/sh\nexit 1\n", 0o700), APIVersion: "client.authentication.k8s.io/v1", InteractiveMode: clientcmdapi.NeverExecInteractiveMode}
	for name, c := range map[string]struct {
		config             rest.Config
		first, again, says string
	}{
		"a token":              {rest.Config{BearerToken: "t"}, "t", "t", ""},
		"a file":               {rest.Config{BearerTokenFile: write(t, "from-file\n", 0o600)}, "from-file", "from-file", ""},
		"a plugin":             {rest.Config{ExecProvider: exec}, "token-1", "token-2", ""},
		"a plugin that fails":  {rest.Config{ExecProvider: broken}, "", "", "log in again"},
		"a certificate":        {rest.Config{}, "", "", "--as-service-account"},
		"a password":           {rest.Config{Username: "u", Password: "p"}, "", "", "--as-service-account"},
		"an impersonated user": {rest.Config{BearerToken: "t", Impersonate: rest.ImpersonationConfig{UserName: "alice"}}, "", "", "impersonates alice"},
	} {
		t.Run(name, func(t *testing.T) {
			c.config.Host = "https://127.0.0.1:1"
			token, err := identity.Shown(func() (*rest.Config, error) { return &c.config, nil })
			first, again := "", ""
			if err == nil {
				first, err = token(t.Context(), false)
			}
			if err == nil {
				again, err = token(t.Context(), true)
			}
			switch {
			case c.says == "" && (err != nil || first != c.first || again != c.again):
				t.Errorf("got %q, then %q, %v", first, again, err)
			case c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)):
				t.Errorf("got %q, %v", first, err)
			}
		})
	}
}
