// Command io-context-server sends the pods of units their inputs and stores their outputs.
package main

import (
	"context"
	"fmt"
	"os"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"switchyard.dev/eventbus/callers/tokens"
	"switchyard.dev/eventbus/program"
	"switchyard.dev/eventbus/trust"
	"switchyard.dev/workflows/iocontext"
	"switchyard.dev/workflows/iocontext/server"
	"switchyard.dev/workflows/iocontext/store"
)

func main() { program.Main("the IO context server ended", run) }

func run(ctx context.Context, args []string) error {
	settings, err := server.ParseSettings(args, os.Stderr)
	if err != nil {
		return err
	}
	logger := program.Logger(settings.LogLevel)
	klog.SetSlogLogger(logger)
	access, err := rest.InClusterConfig()
	if err != nil {
		return fmt.Errorf("reach the cluster: %w", err)
	}
	access.QPS = -1 // callers are rate-limited instead
	kube, err := kubernetes.NewForConfig(access)
	if err != nil {
		return fmt.Errorf("reach the cluster: %w", err)
	}
	config := server.Config{Address: settings.Address, MetricsAddress: settings.MetricsAddress, Logger: logger, Metrics: program.Registry()}
	if config.Store, err = store.Open(access, settings.ValuesNamespace); err != nil {
		return err
	}
	reviews := tokens.Config{Reviews: kube.AuthenticationV1().TokenReviews(), Audience: iocontext.Audience, Keys: tokens.PublishedKeys(kube.Discovery().RESTClient())}
	if config.Tokens, err = tokens.New(reviews); err != nil {
		return err
	}
	if config.TLS, err = trust.Open(trust.Config{Dir: settings.TLSDir, Name: server.Name, Logger: logger}); err != nil {
		return err
	}
	main, err := server.New(config)
	if err != nil {
		return err
	}
	return main.Run(ctx)
}
