package pods

import (
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/optional"
)

// Client is the client of controllers. It also reads the pods of baselines and has a source of their
// events, for baseline.Pods and baseline.Watch.
type Client struct {
	optional.Client
	*Pods
}

var (
	_ baseline.PodSource     = Client{}
	_ baseline.RolloutSource = Client{}
)
