// Package rawbson reads and appends BSON in place, as elements one after the other. A document has its elements in this form between
// its length and its end. The package copies and allocates only the bytes that it appends.
//
//	element.go  Element, Read; Cut and All for elements that are known to be well-formed; appending headers, elements, documents
//	size.go     the size of a value, by its type
package rawbson
