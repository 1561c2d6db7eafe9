package xtables

import "encoding/binary"

// Family is IPv4 or IPv6: the layout of what differs between the two.
type Family struct {
	// Name is IPv4 or IPv6.
	Name string

	entry   int  // size of an entry before its matches
	iface   int  // where the name of the interface that packets come in by stands
	masks   int  // where the mask of that name stands
	proto   int  // where the number of the protocol stands
	flags   int  // where flags stand
	byProto byte // the flag without which the protocol is ignored
	offsets int  // where the offsets of the target and of the next entry stand
	ranges  func(port uint16) []byte
}

// Sizes and places that both families share.
const (
	hooks    = 5  // a place for each hook, also for those that nat has not
	nameSize = 32 // of a table
	headSize = 32 // of the header before the data of a match or target
	maxName  = 29 // of a match or target, with the zero at its end
	// CounterSize is the size of one counter of packets and bytes.
	CounterSize = 16
	// ShapeSize is the size of the kernel's answer to InfoOption.
	ShapeSize = nameSize + 4 + 2*4*hooks + 4 + 4
	// EntriesHead is how much comes before the entries in its answer to
	// EntriesOption.
	EntriesHead = nameSize + 8
	requestHead = 96
)

// Options of sockets, the same numbers for both families: Replace takes a
// Request, Info gives a Shape, Entries the entries.
const (
	ReplaceOption = 64
	InfoOption    = 64
	EntriesOption = 65
)

// TableName is the table with which destinations are changed.
const TableName = "nat"

// Verdicts and marks of the kernel's.
const (
	prerouting    = 0
	verdictReturn = -5
	targetError   = "ERROR"
	// byPort is the flag of a range of ports.
	byPort = 2
)

// IPv4 returns the layout of struct ipt_entry.
func IPv4() Family {
	return Family{
		Name: "IPv4", entry: 112, iface: 16, masks: 48, proto: 80, flags: 82, offsets: 88,
		ranges: func(port uint16) []byte { // one struct nf_nat_ipv4_range, after their number
			data := make([]byte, 24)
			native.PutUint32(data, 1)
			native.PutUint32(data[4:], byPort)
			binary.BigEndian.PutUint16(data[16:], port)
			binary.BigEndian.PutUint16(data[18:], port)
			return data
		},
	}
}

// IPv6 returns the layout of struct ip6t_entry.
func IPv6() Family {
	return Family{
		Name: "IPv6", entry: 168, iface: 64, masks: 96, proto: 128, flags: 131, byProto: 1, offsets: 140,
		ranges: func(port uint16) []byte { // struct nf_nat_range
			data := make([]byte, 40)
			native.PutUint32(data, byPort)
			binary.BigEndian.PutUint16(data[36:], port)
			binary.BigEndian.PutUint16(data[38:], port)
			return data
		},
	}
}

// native is the order of bytes within the kernel's numbers.
var native = binary.NativeEndian
