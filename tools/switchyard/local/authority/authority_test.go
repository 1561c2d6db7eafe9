package authority

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"switchyard.dev/eventbus/trust"
	"switchyard.dev/tools/switchyard/command/reach"
)

// tokens is a plugin that gives a new token each time that it runs: token-1, token-2, …
const tokens = `#!/bin/sh
n=$(($(cat "$0.n" 2>/dev/null || echo 0) + 1)); echo $n > "$0.n"
printf '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"token-%s"}}' $n
`

// An API server that refuses the first token of a plugin is asked with the next, and one that refuses
// that too does not know the user.
func TestARejectedTokenIsRenewed(t *testing.T) {
	for taken, known := range map[string]bool{"token-1": true, "token-2": true, "another": false} {
		t.Run(taken, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				if r.Header.Get("Authorization") != "Bearer "+taken {
					w.WriteHeader(http.StatusUnauthorized)
					_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Reason: metav1.StatusReasonUnauthorized, Code: http.StatusUnauthorized, Message: "Unauthorized"})
					return
				}
				_ = json.NewEncoder(w).Encode(corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, Data: map[string]string{trust.BundleFile: "bundle"}})
			}))
			defer server.Close()
			plugin := filepath.Join(t.TempDir(), "plugin")
			if err := os.WriteFile(plugin, []byte(tokens), 0o700); err != nil {
				t.Fatal(err)
			}
			client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"},
				ExecProvider: &clientcmdapi.ExecConfig{Command: plugin, APIVersion: "client.authentication.k8s.io/v1", InteractiveMode: clientcmdapi.NeverExecInteractiveMode}})
			if err != nil {
				t.Fatal(err)
			}
			bundle, err := Published(t.Context(), client, "signadot")
			var stranger *reach.StrangerError
			switch {
			case known && (err != nil || string(bundle) != "bundle"):
				t.Errorf("it is not read: %q, %v", bundle, err)
			case !known && (!errors.As(err, &stranger) || !strings.HasPrefix(err.Error(), reach.Stranger+"; "+reach.Login)):
				t.Errorf("the error is %v", fmt.Sprint(err))
			}
		})
	}
}
