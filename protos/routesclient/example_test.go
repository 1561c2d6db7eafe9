package routesclient_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"switchyard.dev/protos/routesclient"
)

// A message consumer that runs in the baseline and, with SIGNADOT_SANDBOX_NAME, in its forks.
// Every consumer receives all messages; the routing key is in their metadata.
func ExampleWatched_Processes() {
	client, err := routesclient.Dial("routeserver.signadot.svc:7777")
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	ctx := context.Background()
	driver := routesclient.Baseline{Kind: "Deployment", Namespace: "hotrod", Name: "driver"}
	watched := client.Watch(ctx, routesclient.Filter{Baseline: driver})
	<-watched.Synced()
	for _, routingKey := range []string{"", "k7q2m9x4v1tz8"} {
		if watched.Processes(driver, os.Getenv("SIGNADOT_SANDBOX_NAME"), routingKey) {
			fmt.Println("process the message with key", routingKey)
		}
	}
}

// A program that lists the rules of one sandbox over HTTP.
func ExampleHTTP_Rules() {
	server := routesclient.HTTP{URL: "http://routeserver.signadot.svc:7778"}
	rules, err := server.Rules(context.Background(), routesclient.Filter{Sandbox: "new-customer"})
	if err != nil {
		log.Fatal(err)
	}
	for _, r := range rules {
		fmt.Println(r.GetBaseline().GetName(), r.GetRoutingKey(), r.GetMappings())
	}
}
