// Package trace keeps the last exchanges of this proxy and tells of them in
// words: which session each had, which cookies went with it and why not the
// others, what its reply set and showed, by which exit it left, and where its
// time went.
//
// A [Log] takes [Record]s, which point at what an exchange held anyway: nothing
// is worked out before somebody asks. What is told is an [Exchange], which has
// neither a cookie's value, nor a query, nor credentials. Package proxy writes
// the records; package admin answers with them.
package trace
