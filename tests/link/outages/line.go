package outages

import (
	"encoding/binary"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"switchyard.dev/tests/podnet"
)

// The ends of a line: the agent's and the control plane's.
const (
	near = iota
	far
)

// condition is how a line transmits packets. The zero value is that of a working network.
type condition struct {
	// lose discards the packets from an end.
	lose [2]bool
	// reset discards all packets, and resets the TCP connections that they are of, at their sender.
	reset bool
	// delay is added to each packet, and rate bounds the bytes of a second in each direction; 0: neither.
	delay time.Duration
	rate  int
}

const (
	// queued is how many packets may be on a line in one direction, queuedSlowly those of one with a rate.
	queued, queuedSlowly = 4096, 64
	largestPacket        = 9000
	// step is how often a packet that waits is checked for another condition.
	step = 2 * time.Millisecond
)

// line transmits packets between two TUN devices, until it is closed.
type line struct {
	devices *podnet.Line
	ends    [2]*os.File
	now     atomic.Pointer[condition]
	ended   sync.WaitGroup
}

type packet struct {
	since time.Time
	data  []byte
}

// begin begins to transmit between the ends of a line, as a working network does.
func begin(devices *podnet.Line) *line {
	l := &line{devices: devices, ends: [2]*os.File{devices.Near, devices.Far}}
	l.set(condition{})
	for from := range l.ends {
		queue := make(chan packet, queued)
		l.ended.Go(func() { l.collect(from, queue); close(queue) })
		l.ended.Go(func() { l.deliver(1-from, queue) })
	}
	return l
}

// close removes the line.
func (l *line) close() error {
	l.set(condition{reset: true}) // no packet waits
	if err := l.devices.Remove(); err != nil {
		return err
	}
	l.ended.Wait()
	return errors.Join(l.ends[near].Close(), l.ends[far].Close())
}

// set changes the condition. Packets that are delayed by the former one are delivered at once.
func (l *line) set(c condition) { l.now.Store(&c) }

// collect reads packets from an end.
func (l *line) collect(from int, queue chan<- packet) {
	for {
		data := make([]byte, largestPacket)
		n, err := unix.Read(int(l.ends[from].Fd()), data)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return // its devices were removed
		}
		c := l.now.Load()
		switch {
		case c.reset:
			if answer := reset(data[:n]); answer != nil {
				_, _ = unix.Write(int(l.ends[from].Fd()), answer) // a full device loses packets, as a network does
			}
		case c.lose[from] || c.rate > 0 && len(queue) > queuedSlowly:
		default:
			select {
			case queue <- packet{time.Now(), data[:n]}:
			default: // the line is full
			}
		}
	}
}

// deliver writes packets to an end, each when it is due.
func (l *line) deliver(to int, queue <-chan packet) {
	last := time.Now()
	for p := range queue {
		for {
			c := l.now.Load()
			if c.reset || c.lose[1-to] {
				break // it was on its way
			}
			due := p.since.Add(c.delay)
			if c.rate > 0 {
				if free := last.Add(time.Duration(len(p.data)) * time.Second / time.Duration(c.rate)); free.After(due) {
					due = free
				}
			}
			wait := time.Until(due)
			if wait <= 0 {
				last = time.Now()
				_, _ = unix.Write(int(l.ends[to].Fd()), p.data) // as above
				break
			}
			pause := unix.NsecToTimespec(int64(min(wait, step))) // more exact than the timers of the runtime
			_ = unix.Nanosleep(&pause, nil)
		}
	}
}

// Flags of TCP.
const (
	flagFIN = 1 << iota
	flagSYN
	flagRST
	_
	flagACK
)

// reset returns the IPv4 packet that resets the TCP connection of a packet at its sender; nil for other packets.
func reset(p []byte) []byte {
	const head = 20 // of IPv4 and of TCP, without options
	if len(p) < 2*head || p[0]>>4 != 4 || p[9] != unix.IPPROTO_TCP {
		return nil
	}
	length := int(p[0]&15) * 4
	total := int(binary.BigEndian.Uint16(p[2:]))
	if total > len(p) || total < length+head {
		return nil
	}
	segment := p[length:total]
	flags := segment[13]
	if flags&flagRST != 0 {
		return nil
	}
	answer := make([]byte, 2*head)
	answer[0], answer[8], answer[9] = 4<<4|head/4, 64, unix.IPPROTO_TCP
	binary.BigEndian.PutUint16(answer[2:], 2*head)
	copy(answer[12:16], p[16:20])
	copy(answer[16:20], p[12:16])
	t := answer[head:]
	copy(t[0:2], segment[2:4])
	copy(t[2:4], segment[0:2])
	t[12], t[13] = head/4<<4, flagRST
	if flags&flagACK != 0 {
		copy(t[4:8], segment[8:12])
	} else {
		payload := len(segment) - int(segment[12]>>4)*4
		next := binary.BigEndian.Uint32(segment[4:]) + uint32(max(0, payload))
		if flags&(flagSYN|flagFIN) != 0 {
			next++
		}
		binary.BigEndian.PutUint32(t[8:], next)
		t[13] |= flagACK
	}
	binary.BigEndian.PutUint16(answer[10:], checksum(0, answer[:head]))
	pseudo := sum(0, answer[12:20]) + unix.IPPROTO_TCP + head
	binary.BigEndian.PutUint16(t[16:], checksum(pseudo, t))
	return answer
}

// sum adds the 16-bit words of data, the length of which is even, to a sum.
func sum(to uint32, data []byte) uint32 {
	for i := 0; i+1 < len(data); i += 2 {
		to += uint32(binary.BigEndian.Uint16(data[i:]))
	}
	return to
}

// checksum returns the checksum of data, after a sum of other data.
func checksum(before uint32, data []byte) uint16 {
	s := sum(before, data)
	for s>>16 != 0 {
		s = s&0xffff + s>>16
	}
	return ^uint16(s)
}
