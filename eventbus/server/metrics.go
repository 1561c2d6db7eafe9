package server

import (
	"github.com/prometheus/client_golang/prometheus"

	"switchyard.dev/eventbus/callers"
	"switchyard.dev/eventbus/embedded/store"
)

// collector reads the counts of the bus when they are asked for.
type collector struct{ of *Server }

// Describe implements prometheus.Collector.
func (c collector) Describe(to chan<- *prometheus.Desc) {
	prometheus.DescribeByCollect(c, to)
}

// Collect implements prometheus.Collector.
func (c collector) Collect(to chan<- prometheus.Metric) {
	send := func(kind prometheus.ValueType, name, help string, value float64, labels prometheus.Labels) {
		desc := prometheus.NewDesc("switchyard_eventbus_"+name, help, nil, labels)
		to <- prometheus.MustNewConstMetric(desc, kind, value)
	}
	gauge := func(name, help string, value float64) { send(prometheus.GaugeValue, name, help, value, nil) }
	gauge("ready", "1 when the log can be served.", oneIf(c.of.ready() == nil))
	for name, l := range map[string]*callers.Listener{"health": c.of.health, "metrics": c.of.metrics} {
		send(prometheus.CounterValue, "connections_closed_total", "Connections that were closed to make room for others.",
			float64(l.Closed()), prometheus.Labels{"listener": name})
	}
	bus := c.of.bus.Load()
	if bus == nil {
		return
	}
	stats, err := bus.Stats()
	if err != nil {
		to <- prometheus.NewInvalidMetric(prometheus.NewInvalidDesc(err), err)
		return
	}
	gauge("events", "Events that the log keeps.", float64(stats.Events))
	gauge("bytes", "Bytes that the log takes on disk.", float64(stats.Bytes))
	gauge("max_bytes", "Bytes that the log may take on disk.", float64(stats.MaxBytes))
	gauge("last_sequence", "Sequence of the last event; it falls when the log begins again.", float64(stats.LastSeq))
	gauge("witnessed_sequence", "Sequence of the newest event that is known to be on disk.", float64(stats.Witnessed.Seq))
	gauge("connections", "Clients that are connected.", float64(stats.Connections))
	send(prometheus.CounterValue, "connections_closed_total", "Connections that were closed to make room for others.",
		float64(stats.Closed), prometheus.Labels{"listener": "clients"})
	gauge("synced", "1 when every write is on disk before it is acknowledged.", oneIf(stats.Synced))
	for _, kind := range store.Damages {
		send(prometheus.CounterValue, "stores_moved_aside_total", "Damaged stores that were moved aside, by what was wrong.",
			float64(stats.MovedAside[kind]), prometheus.Labels{"damage": string(kind)})
	}
	if last := stats.LastAside; last.Kind != "" {
		send(prometheus.GaugeValue, "last_store_moved_aside_timestamp_seconds", "When the last damaged store was moved aside, and what was wrong.",
			float64(last.At.Unix()), prometheus.Labels{"damage": string(last.Kind)})
	}
	send(prometheus.CounterValue, "store_healed_total", "Times that the store was opened again after its disk had failed.", float64(stats.Healed), nil)
}

func oneIf(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
