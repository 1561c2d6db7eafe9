package attack

import "fmt"

// Kind is a way to hold memory.
type Kind struct {
	// Two: over HTTP/2.
	Two bool
	// Up: the application does not read from clients; otherwise clients do not read its responses.
	Up bool
	// Drip: one byte a second is read, and not none.
	Drip bool
	// Streams is how many a client has; over HTTP/1 one.
	Streams int
	// Head: clients send no request but the beginning of its head, of so many bytes.
	Head int
	// Idle: clients have received one response, over HTTP/1, and send nothing more.
	Idle bool
}

// Kinds are all of them.
func Kinds() (all []Kind) {
	for _, two := range []bool{false, true} {
		for _, up := range []bool{false, true} {
			for _, drip := range []bool{false, true} {
				all = append(all, Kind{Two: two, Up: up, Drip: drip, Streams: 1})
			}
			if two {
				all = append(all, Kind{Two: two, Up: up, Streams: manyStreams})
			}
		}
		all = append(all, Kind{Two: two, Head: largeHead, Streams: 1})
	}
	return append(all, Kind{Idle: true, Streams: 1})
}

const (
	manyStreams = 100
	// largeHead is just short of what the sidecar takes as one.
	largeHead = 1<<20 - 4<<10
)

// String names the kind in words with dashes between.
func (k Kind) String() string {
	if k.Idle {
		return "idle"
	}
	version, way, pace := "h1", "down", "nothing"
	if k.Two {
		version = "h2"
	}
	if k.Head > 0 {
		return version + "-heads"
	}
	if k.Up {
		way = "up"
	}
	if k.Drip {
		pace = "a-byte"
	}
	if k.Streams > 1 {
		pace = fmt.Sprintf("%d-streams", k.Streams)
	}
	return fmt.Sprintf("%s-%s-%s", version, way, pace)
}

// path returns the path that is requested from the application.
func (k Kind) path() string {
	switch {
	case k.Idle:
		return "/"
	case !k.Up:
		return floodPath
	case k.Drip:
		return dripPath
	}
	return deafPath
}
