// Package rawbson reads and appends BSON in place: elements one after the other, as a document has them between its length
// and its end. It copies nothing and allocates nothing but what is appended.
//
//	element.go  Element, Read; Cut and All for what was read before
//	size.go     how long a value is, by its type
//	append.go   appending headers, elements, documents
package rawbson
