package measurement

import "strconv"

// fieldPath is the dotted path to what a walk over an event looks at: for messages.
type fieldPath []byte

// push goes into the field of this name; cutting the path at the returned length goes back.
func (p *fieldPath) push(name []byte) (length int) {
	length = len(*p)
	if length > 0 {
		*p = append(*p, '.')
	}
	*p = append(*p, name...)
	return length
}

// pushIndex goes into the element of an array.
func (p *fieldPath) pushIndex(i int) (length int) {
	var index [20]byte
	return p.push(strconv.AppendInt(index[:0], int64(i), 10))
}

// pop goes back to the length that push returned.
func (p *fieldPath) pop(length int) { *p = (*p)[:length] }

// to returns the path to a field of where the walk is.
func (p *fieldPath) to(name []byte) string {
	length := p.push(name)
	path := string(*p)
	p.pop(length)
	return path
}
