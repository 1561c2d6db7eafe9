package arch

// exceptions are findings that stand, each with its reason. The key is the
// beginning of the finding; one that matches nothing any more fails the test.
var exceptions = map[string]string{}
