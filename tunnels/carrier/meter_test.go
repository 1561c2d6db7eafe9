package carrier

import (
	"encoding/binary"
	"testing"
)

// header returns the header of a frame of the multiplexer.
func header(kind byte, flags uint16, id, length uint32) []byte {
	b := []byte{0, kind}
	b = binary.BigEndian.AppendUint16(b, flags)
	b = binary.BigEndian.AppendUint32(b, id)
	return binary.BigEndian.AppendUint32(b, length)
}

// newMeter returns a meter with the default limits.
func newMeter() *meter { return limited(Limits{}.orDefaults()) }

// The multiplexer ignores frames of streams that are unknown or closed. So does the meter,
// however many there are.
func TestFramesOfNoStreamAreNotKept(t *testing.T) {
	const ping, flagACK = 2, 1 << 1
	m := newMeter()
	defer m.stop()
	for id := uint32(1); id < 1000; id++ {
		m.came(header(typeWindow, flagACK, id, 0))
		m.came(append(header(typeData, flagACK, id, 5), "hello"...))
	}
	m.came(header(ping, flagSYN, 0, 7))
	if len(m.streams) > 0 || m.total != 0 {
		t.Fatalf("%d unknown streams are kept, with %d bytes", len(m.streams), m.total)
	}
	// A stream of this end, with data before its owner is known and after it has left.
	m.sent(header(typeWindow, flagSYN, 7, 0))
	m.came(append(header(typeData, flagACK, 7, 5), "hello"...))
	if m.total != 5+frameCost {
		t.Errorf("%d bytes of the known stream are counted", m.total)
	}
	m.join(7, &Stream{})
	m.leave(7)
	m.came(append(header(typeData, flagACK, 7, 5), "hello"...))
	// One of the other side's.
	m.came(append(header(typeData, flagSYN, 8, 5), "hello"...))
	if len(m.streams) != 1 || m.total != 5+frameCost {
		t.Errorf("%d streams are kept, with %d bytes", len(m.streams), m.total)
	}
}
