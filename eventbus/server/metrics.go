package server

import (
	"github.com/prometheus/client_golang/prometheus"

	"switchyard.dev/eventbus/embedded"
)

// collector reads the counts of the bus when they are asked for.
type collector struct{ bus *embedded.Server }

// Describe implements prometheus.Collector.
func (c collector) Describe(to chan<- *prometheus.Desc) {
	prometheus.DescribeByCollect(c, to)
}

// Collect implements prometheus.Collector.
func (c collector) Collect(to chan<- prometheus.Metric) {
	stats, err := c.bus.Stats()
	if err != nil {
		to <- prometheus.NewInvalidMetric(prometheus.NewInvalidDesc(err), err)
		return
	}
	gauge := func(name, help string, value float64) {
		desc := prometheus.NewDesc("switchyard_eventbus_"+name, help, nil, nil)
		to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value)
	}
	gauge("events", "Events that the log keeps.", float64(stats.Events))
	gauge("bytes", "Bytes that the log takes on disk.", float64(stats.Bytes))
	gauge("max_bytes", "Bytes that the log may take on disk.", float64(stats.MaxBytes))
	gauge("last_sequence", "Sequence of the last event; it falls when the log begins again.", float64(stats.LastSeq))
	gauge("connections", "Clients that are connected.", float64(stats.Connections))
	gauge("synced", "1 when every write is on disk before it is acknowledged.", oneIf(stats.Synced))
	gauge("ready", "1 when the log can be served.", oneIf(c.bus.Ready() == nil))
}

func oneIf(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
