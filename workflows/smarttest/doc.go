// Package smarttest has the values of Smart Tests: a test, the limits of its run, the reports of the interpreter, and the
// result. The packages below it run tests:
//
//	find         the tests in files and folders, with their names and labels
//	child        one test in a process of its own with limits, and how it ended
//	interpreter  in that process: Starlark, the published modules, checks, calls and captures
//	reach        the addresses that a test can connect to, checked when it connects
//	command      the program, which prints the results of several tests as one document
//
// A test is Starlark (go.starlark.net) with the modules json, math, re, string, time, http and smart_test, as global
// names and for load. Statements can be at the top level, global names can be assigned again, and functions cannot call
// themselves, as in published tests. There is no access to files, variables or the process.
//
//	res = http.get("http://frontend.shop.svc:8080/list", capture=True, name="list")
//	ck = smart_test.check("list-is-served")
//	if res.status_code != 200:
//	    ck.error("status {}", res.status_code)
//
// The functions of http have the arguments of starlet, and capture and name (also reqName). A call with capture=True has
// the request and the response in the result, without elided headers, and a trace by which the requests behind it are found.
// smart_test.check formats a name as string.format does; the check has name, error(format, …) and errorAttrs(key=value).
// As in starlet, json() of a response turns strings with a whole number or a time into that; json.decode(res.body()) does not.
// An extension of Switchyard: smart_test.check(name, function) calls the function with the check; an error of the
// function fails this check, and the test continues.
package smarttest
