package event

// Identified reports whether the id of an event is the hash of what it says, as
// every event of this project has it. One of a type that is not known is taken
// to be: what a newer writer's ids are made of only it knows.
func Identified(m Message) bool {
	return newData(m.Header[headerType]) == nil || id(m.Header, m.Data) == m.Header[headerID]
}
