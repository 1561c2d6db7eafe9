package audit

import (
	"time"

	"switchyard.dev/eventbus/records"
)

// Direction is the direction of a connection.
type Direction string

// The directions.
const (
	// Inbound: from the cluster to a workstation.
	Inbound Direction = "inbound"
	// Outbound: from a workstation into the cluster.
	Outbound Direction = "outbound"
)

// How a connection ended, if not with an error.
const (
	// Closed: both ends have closed it.
	Closed = "closed"
	// ProxyDied: the proxy process terminated, so the number of bytes is unknown.
	ProxyDied = "proxy died"
)

// Connection describes a connection when it begins.
type Connection struct {
	// ID identifies the connection; Begin sets it.
	ID string `json:"id"`
	// Began is when it began; Begin sets it.
	Began time.Time `json:"began"`
	// Direction is which way it goes.
	Direction Direction `json:"direction"`
	// Via is how the workstation is connected: carrier, ssh or socks5.
	Via string `json:"via"`
	// User is the workstation's user, as the cluster knows the user; empty where it is unknown.
	User string `json:"user,omitempty"`
	// Session is the workstation's session, if it has one.
	Session string `json:"session,omitempty"`
	// From is the address of the client, as address:port.
	From string `json:"from"`
	// To is the destination: the address that is dialled, or the port of a baseline.
	To string `json:"to"`
	// Asked is the requested host:port, if it differs from To.
	Asked string `json:"asked,omitempty"`
	// Sandbox and Workload are the SignadotSandbox and the SignadotExternalWorkload, as
	// namespace/name, of a connection to a workstation.
	Sandbox  string `json:"sandbox,omitempty"`
	Workload string `json:"workload,omitempty"`
	// Proxy is the proxy's pod; Begin sets it.
	Proxy string `json:"proxy,omitempty"`
}

// End describes the end of a connection.
type End struct {
	// At is when it ended.
	At time.Time `json:"at"`
	// Sent and Received are the bytes from the client and the bytes returned. They are unknown
	// when the proxy died.
	Sent     int64 `json:"sent"`
	Received int64 `json:"received"`
	// How is Closed, ProxyDied, or the error.
	How string `json:"how"`
	// Refused: no connection was opened. How is why, and this is the only record.
	Refused bool `json:"refused,omitempty"`
}

// Record is one record: the last one of a connection when it has an End.
type Record struct {
	Connection
	End *End `json:"end,omitempty"`
}

// Sink receives records in addition to the log.
type Sink = records.Sink[Record]
