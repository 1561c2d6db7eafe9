package devmesh

import (
	"time"

	overloadv3 "github.com/envoyproxy/go-control-plane/envoy/config/overload/v3"
	connectionsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/resource_monitors/downstream_connections/v3"
	fixedheapv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/resource_monitors/fixed_heap/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
)

// Actions when memory is short, by the share of the heap that is used.
//
// Streams of HTTP/2 that hold much are ended first: those with most, and the fuller
// the heap the smaller ones too. Envoy ends up to 50 in each worker whenever the share
// changes, and none while the action is saturated; so it never is: resetAll is beyond
// what the heap can be, and heapScale keeps Envoy from cutting the share off at one.
// Streams of HTTP/1 Envoy does not count; connectionBuffer bounds them.
//
// What a stream costs beside its data (23 KiB) nothing ends, and a refusal stays in
// memory when its client does not take it. So above closeAbove new connections are
// closed at their first byte, and those of HTTP/2 that send anything, with all their
// streams. Requests of HTTP/1 are refused last.
//
// A connection on which nothing goes on holds 30 KiB, and costs its client nothing. Between
// idleFrom and idleAll the time shrinks that it is kept, from idleConnection to idleLeast:
// so those that are used find room. Above stopAbove none is accepted, of whatever protocol.
//
// Where few files may be open there are few connections, which fill no memory. So the same
// time shrinks between connectionsFrom and connectionsAll of them.
const (
	resetFrom   = 0.45
	resetAll    = 1.45
	idleFrom    = 0.50
	idleAll     = 0.70
	shrinkAbove = 0.80
	closeAbove  = 0.85
	stopAbove   = 0.95
	refuseAbove = 0.98

	connectionsFrom = 0.75
	connectionsAll  = 0.90
	heapScale       = 2
	// countedFrom is the power of two of the bytes from which on a stream is counted:
	// eight classes of streams, from 1 KiB to 128 KiB and more. At refuseAbove those
	// of 8 KiB are ended.
	countedFrom = 10
	// refreshOverload is how often memory is checked. 1,000 clients with 100 streams each open
	// thousands in a second, and their memory is in use until the next check.
	refreshOverload = 20 * time.Millisecond
)

// The monitor of connections has no pressure, in Envoy 1.40, unless another monitor runs
// beside it, such as that of the heap.
const (
	heapMonitor        = "envoy.resource_monitors.fixed_heap"
	connectionsMonitor = "envoy.resource_monitors.global_downstream_max_connections"
)

// overload sheds load before the kernel kills the proxy, and with it every
// connection of the baseline.
func (b *builder) overload() *overloadv3.OverloadManager {
	return &overloadv3.OverloadManager{
		RefreshInterval: durationpb.New(refreshOverload),
		ResourceMonitors: []*overloadv3.ResourceMonitor{
			b.monitor(heapMonitor, &fixedheapv3.FixedHeapConfig{MaxHeapSizeBytes: heapScale * b.HeapBytes}),
			b.monitor(connectionsMonitor, &connectionsv3.DownstreamConnectionsConfig{MaxActiveDownstreamConnections: int64(b.Connections)}),
		},
		BufferFactoryConfig: &overloadv3.BufferFactoryConfig{MinimumAccountToTrackPowerOfTwo: countedFrom},
		Actions:             b.memoryActions(),
		LoadshedPoints:      shed(),
	}
}

// above is a trigger that is on while more than a share of the heap is used.
func above(share float64) *overloadv3.Trigger {
	return &overloadv3.Trigger{
		Name:         heapMonitor,
		TriggerOneof: &overloadv3.Trigger_Threshold{Threshold: &overloadv3.ThresholdTrigger{Value: share / heapScale}},
	}
}

// shed closes connections that ask for more while there is hardly any memory.
func shed() []*overloadv3.LoadShedPoint {
	return []*overloadv3.LoadShedPoint{
		{Name: "envoy.load_shed_points.hcm_ondata_creating_codec", Triggers: []*overloadv3.Trigger{above(closeAbove)}},
		{Name: "envoy.load_shed_points.http2_server_go_away_and_close_on_dispatch", Triggers: []*overloadv3.Trigger{above(closeAbove)}},
	}
}

// between is a trigger that grows while the heap that is used does, from one share to
// another.
func between(from, to float64) *overloadv3.Trigger {
	return scaled(heapMonitor, from/heapScale, to/heapScale)
}

// scaled is a trigger that grows while what a monitor sees does, from one value to another.
func scaled(monitor string, from, to float64) *overloadv3.Trigger {
	return &overloadv3.Trigger{
		Name: monitor,
		TriggerOneof: &overloadv3.Trigger_Scaled{Scaled: &overloadv3.ScaledTrigger{
			ScalingThreshold: from, SaturationThreshold: to,
		}},
	}
}

// memoryActions are the actions when memory is short.
func (b *builder) memoryActions() []*overloadv3.OverloadAction {
	idle := b.any(&overloadv3.ScaleTimersOverloadActionConfig{
		TimerScaleFactors: []*overloadv3.ScaleTimersOverloadActionConfig_ScaleTimer{{
			Timer: overloadv3.ScaleTimersOverloadActionConfig_HTTP_DOWNSTREAM_CONNECTION_IDLE,
			OverloadAdjust: &overloadv3.ScaleTimersOverloadActionConfig_ScaleTimer_MinTimeout{
				MinTimeout: durationpb.New(idleLeast),
			},
		}},
	})
	return []*overloadv3.OverloadAction{
		{Name: "envoy.overload_actions.reset_high_memory_stream", Triggers: []*overloadv3.Trigger{between(resetFrom, resetAll)}},
		{Name: "envoy.overload_actions.reduce_timeouts", TypedConfig: idle,
			Triggers: []*overloadv3.Trigger{between(idleFrom, idleAll), scaled(connectionsMonitor, connectionsFrom, connectionsAll)}},
		{Name: "envoy.overload_actions.shrink_heap", Triggers: []*overloadv3.Trigger{above(shrinkAbove)}},
		{Name: "envoy.overload_actions.stop_accepting_connections", Triggers: []*overloadv3.Trigger{above(stopAbove)}},
		{Name: "envoy.overload_actions.stop_accepting_requests", Triggers: []*overloadv3.Trigger{above(refuseAbove)}},
	}
}

func (b *builder) monitor(name string, config proto.Message) *overloadv3.ResourceMonitor {
	return &overloadv3.ResourceMonitor{
		Name: name, ConfigType: &overloadv3.ResourceMonitor_TypedConfig{TypedConfig: b.any(config)},
	}
}
