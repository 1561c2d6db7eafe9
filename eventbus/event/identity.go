package event

// Identified reports whether the id of an event is the hash of its content, as in every event
// of this project. Unknown types are accepted: only their newer writer knows how their ids are
// computed.
func Identified(m Message) bool {
	return newData(m.Header[headerType]) == nil || id(m.Header, m.Data) == m.Header[headerID]
}
