package switchyard_test

import (
	"context"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"switchyard.dev/tools/switchyard"
	"switchyard.dev/tools/switchyard/command"
)

// TestMain is also the command that bisect runs: what it does then is said by
// BISECTED in the environment.
func TestMain(m *testing.M) {
	switch os.Getenv("BISECTED") {
	case "":
		os.Exit(m.Run())
	case "switchyard":
		os.Exit(int(switchyard.Main(context.Background(), command.Config{
			Name: "switchyard", In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Getenv: os.Getenv,
		}, os.Args[1:])))
	case "routes":
		os.Exit(askRoutes(os.Args[1]))
	case "exit":
		if strings.HasSuffix(os.Getenv("SWITCHYARD_VERSION"), "/"+os.Args[1]) {
			os.Exit(125)
		}
		os.Exit(askRoutes("alice"))
	}
}

// askRoutes exits as a test of the published routes API would: 0 when there is a
// rule for the key.
func askRoutes(key string) int {
	got, err := http.Get(os.Getenv("SWITCHYARD_ROUTES_URL") + "?routingKey=" + key)
	if err != nil {
		return 3
	}
	defer got.Body.Close()
	body, err := io.ReadAll(got.Body)
	if err != nil || got.StatusCode != http.StatusOK || os.Getenv("SIGNADOT_ROUTESERVER") == "" {
		return 3
	}
	if !strings.Contains(string(body), `"routingKey":"`+key+`"`) {
		return 1
	}
	return 0
}
