package manager

import (
	"github.com/prometheus/client_golang/prometheus"

	"switchyard.dev/eventbus/publisher"
)

// logMetrics collects the metrics of the routing log from its publisher. Only the leader's values are
// meaningful.
type logMetrics struct{ of *publisher.Publisher }

// Describe implements prometheus.Collector.
func (m logMetrics) Describe(to chan<- *prometheus.Desc) { prometheus.DescribeByCollect(m, to) }

// Collect implements prometheus.Collector.
func (m logMetrics) Collect(to chan<- prometheus.Metric) {
	send := func(kind prometheus.ValueType, name, help string, value float64, labels prometheus.Labels) {
		to <- prometheus.MustNewConstMetric(prometheus.NewDesc("switchyard_routing_log_"+name, help, nil, labels), kind, value)
	}
	gauge := func(name, help string, value float64) { send(prometheus.GaugeValue, name, help, value, nil) }
	s := m.of.Status()
	whole := 0.0
	if s.Why == nil {
		whole = 1
	}
	gauge("whole", "1 on the leader while every object is stated in the routing log.", whole)
	gauge("unsettled_objects", "Objects whose controllers failed for so long that the log does not wait for them.", float64(len(s.Unsettled)))
	for _, why := range []string{publisher.EndedDamaged, publisher.EndedFull, publisher.EndedLost} {
		send(prometheus.CounterValue, "epochs_ended_total", "Epochs of the routing log that ended, and their history with them, by why.",
			float64(s.Ended[why]), prometheus.Labels{"reason": why})
	}
	if s.Witness.Mark.Epoch == "" {
		return // This replica has never been the leader.
	}
	since := 0.0
	if !s.Witness.Since.IsZero() {
		since = float64(s.Witness.Since.Unix())
	}
	send(prometheus.GaugeValue, "epoch_began_timestamp_seconds", "When the present epoch began; 0 when that is not known.",
		since, prometheus.Labels{"epoch": s.Witness.Mark.Epoch})
	gauge("sequence", "Sequence of the newest event.", float64(s.Witness.Mark.Seq))
	gauge("floor_sequence", "Sequence of the oldest event that is kept.", float64(s.Begins))
	gauge("live_facts", "Facts that count.", float64(s.Live))
	gauge("bytes", "Bytes that the routing log takes.", float64(s.Bytes))
	gauge("max_bytes", "Bytes that it may take (eventBus.history.size).", float64(s.MaxBytes))
	crowded := 0.0
	if s.Crowded {
		crowded = 1
	}
	gauge("crowded", "1 while the routing log takes half of its room, so that history goes sooner than it is to: give it more room (eventBus.history.size), or ask for less history.", crowded)
}
