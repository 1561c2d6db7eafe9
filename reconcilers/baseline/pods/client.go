package pods

import (
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/optional"
)

// Client is the client of controllers, through which they also find the pods of baselines,
// and are told of them, as baseline.Pods and baseline.Watch want it.
type Client struct {
	optional.Client
	*Pods
}

var (
	_ baseline.PodSource     = Client{}
	_ baseline.RolloutSource = Client{}
)
