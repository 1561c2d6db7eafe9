package publisher

import "switchyard.dev/eventbus"

// Crowded reports whether a log is so full that an alarm is due: from half of its size on,
// where it begins to forget history that it should keep, until it is below three eighths,
// so that a log near half raises the alarm once. was is the last result.
func Crowded(was bool, kept eventbus.Kept) bool {
	from := kept.MaxBytes / 2
	if was {
		from = kept.MaxBytes / 8 * 3
	}
	return kept.MaxBytes > 0 && kept.Bytes >= from
}

// weigh records the size of the log, and reports when it becomes too large, or no longer is.
func (p *Publisher) weigh(kept eventbus.Kept) {
	p.mu.Lock()
	was := p.crowded
	p.crowded, p.kept = Crowded(was, kept), kept
	now := p.crowded
	p.mu.Unlock()
	if now == was {
		return
	}
	if now {
		p.config.Logger.Warn("the routing log takes half of its room: history is forgotten sooner than configured; give it more room, or configure less history",
			"bytes", kept.Bytes, "maxBytes", kept.MaxBytes, "events", kept.Tip.Seq+1-kept.Floor.Seq)
	} else {
		p.config.Logger.Info("the routing log has room again", "bytes", kept.Bytes, "maxBytes", kept.MaxBytes)
	}
	if p.config.Crowded != nil {
		p.config.Crowded(now, kept)
	}
}
