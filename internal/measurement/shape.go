package measurement

import (
	"strconv"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries/rawbson"
)

// maxStoredBytes bounds the document of a bucket that holds a single measurement. It is MongoDB's limit minus a reserve for _id,
// control and meta. Such a bucket holds the measurement three times: as data, minimum and maximum.
const maxStoredBytes = 16<<20 - 64<<10

// columnBytes is what a field takes in the data of a bucket in addition to its element, that is, an object with the index "0".
const columnBytes = 8

// shape makes a measurement of an event, which is a valid BSON document. It takes time and meta out, and checks and copies the
// rest. If the root is null, there is no measurement.
func (d *Decoder) shape(event []byte, dotted bool, m *Measurement) *DecodeError {
	d.beginEvent(dotted)
	var err *DecodeError
	if event, d.dotted, err = d.nester.undot(&d.options, event, dotted); err != nil {
		return err
	}
	start := len(d.out)
	if err = d.walk(event); err != nil || d.nullRoot {
		return d.withWayOut(err)
	}
	if size := len(d.out) - start; !fitsDocument(size, d.topCount) {
		return newError(TooLarge, "", "the event's fields take %d bytes. A bucket stores them three times (data, minimum, maximum), "+
			"which exceeds MongoDB's limit of 16 MiB for a document: split the event", size)
	}
	if m.Time, err = d.timeOf(); err != nil {
		return err
	}
	if d.options.TimeExact != "" {
		var ok bool
		if d.out, ok = d.options.appendExact(d.out, m.Time, d.time.below); !ok {
			return newError(TimeOutOfRange, d.timePath(), "%s is outside the years 1678 to 2261, for which EVENT_TIME_EXACT can keep nanoseconds: send another time, or unset EVENT_TIME_EXACT", formatMillis(m.Time))
		}
	}
	end := len(d.out)
	if m.Meta, err = d.metaOf(); err != nil {
		return err
	}
	m.Elements = d.out[start:end:end]
	return nil
}

// beginEvent drops the state of the previous event.
func (d *Decoder) beginEvent(dotted bool) {
	d.dotted = dotted
	d.names, d.fields = d.names[:0], d.fields[:0]
	d.foundTime, d.foundRoot, d.foundStored, d.nullRoot, d.taken, d.topCount = rawbson.Element{}, nil, false, false, 0, 0
	d.timeRank = 0
	clear(d.foundMeta)
	if d.paths.ofRecord {
		copy(d.foundMeta, d.recordMeta)
		d.foundTime, d.timeRank = d.recordTime, d.recordRank
	}
}

// fitsDocument reports whether a bucket can hold a measurement with this size of its fields in bytes and this number of fields.
func fitsDocument(size, fields int) bool { return 3*size+columnBytes*fields <= maxStoredBytes }

// copyObject checks and copies the elements of an object, without the values that paths take out. at is the node of the paths
// here. Nil means that no path leads on from here. depth is the object's depth, which is 1 for the stored object.
func (d *Decoder) copyObject(list []byte, depth int, at *node) *DecodeError {
	if depth > maxDepth {
		return tooDeep("")
	}
	var paths []node
	if at != nil {
		paths = at.children
	}
	names := len(d.names)
	for len(list) > 0 {
		var e rawbson.Element
		whole := list
		list = e.Cut(list)
		next := nodeOf(paths, e.Name)
		if next == nil { // other names are checked once it is known that their field is kept
			if err := d.checkName(e.Name); err != nil {
				return err
			}
		}
		d.names = append(d.names, e.Name)
		switch {
		case next != nil && next.role != through:
			d.take(e, next)
		case e.Kind == bson.TypeNull && d.options.Nulls == DropNulls:
		case rawbson.IsNested(e.Kind):
			if err := d.copyNested(e, depth+1, next); err != nil {
				return err
			}
		default:
			if next != nil {
				if err := d.checkName(e.Name); err != nil {
					return err
				}
			}
			if err := d.copyPlain(e, whole[:len(whole)-len(list)]); err != nil {
				return err
			}
			if err := d.kept(e.Name, depth); err != nil {
				return err
			}
		}
	}
	return d.checkDuplicates(names)
}

// take keeps a value to which a path leads.
func (d *Decoder) take(e rawbson.Element, leaf *node) {
	switch leaf.role {
	case isTime:
		if d.foundTime.Kind == 0 {
			d.foundTime, d.timeRank = e, leaf.part
		} else {
			d.takeTime(e, leaf.part)
		}
	case isMeta:
		d.foundMeta[leaf.part] = e
	}
	d.taken++
}

// takeTime keeps another value to which a path to the time leads. If there are several paths, the first whose value is not null
// counts.
func (d *Decoder) takeTime(e rawbson.Element, rank int) {
	if kind := d.foundTime.Kind; len(d.paths.times) == 1 || e.Kind != bson.TypeNull && (kind == bson.TypeNull || rank <= d.timeRank) {
		d.foundTime, d.timeRank = e, rank
	}
}

// copyPlain copies an element that is neither an object nor an array.
func (d *Decoder) copyPlain(e rawbson.Element, whole []byte) *DecodeError {
	if e.Kind == bson.TypeString && d.options.Numbers == NumbersInText {
		return d.copyText(e)
	}
	d.out = append(d.out, whole...)
	return nil
}

// copyNested copies an object or an array.
func (d *Decoder) copyNested(e rawbson.Element, depth int, at *node) *DecodeError {
	start, taken := len(d.out), d.taken
	d.out = rawbson.AppendHeader(d.out, e.Kind, e.Name)
	if err := d.copyContent(e, depth, at); err != nil {
		return err.within(string(e.Name))
	}
	if emptied := d.taken > taken && len(d.out)-start == len(e.Name)+2+rawbson.Empty; emptied {
		d.out = d.out[:start] // it held nothing but values that were taken out
		return nil
	}
	if at != nil {
		if err := d.checkName(e.Name); err != nil {
			return err
		}
	}
	return d.kept(e.Name, depth-1)
}

// copyContent copies the value of an object or an array.
func (d *Decoder) copyContent(e rawbson.Element, depth int, at *node) (err *DecodeError) {
	start := len(d.out)
	d.out = append(d.out, 0, 0, 0, 0)
	if e.Kind == bson.TypeArray {
		err = d.copyArray(rawbson.Content(e.Value), depth)
	} else {
		err = d.copyObject(rawbson.Content(e.Value), depth, at)
	}
	d.out = rawbson.EndDocument(d.out, start)
	return err
}

// copyArray copies the elements of an array. It names them by their indexes and ignores their former names.
func (d *Decoder) copyArray(list []byte, depth int) *DecodeError {
	if depth > maxDepth {
		return tooDeep("")
	}
	for i := 0; len(list) > 0; i++ {
		var e rawbson.Element
		list = e.Cut(list)
		if e.Kind == bson.TypeString && d.options.Numbers == NumbersInText {
			e.Name = strconv.AppendInt(nil, int64(i), 10)
			if err := d.copyText(e); err != nil {
				return err
			}
			continue
		}
		d.out = rawbson.AppendIndexHeader(d.out, e.Kind, i)
		if !rawbson.IsNested(e.Kind) {
			d.out = append(d.out, e.Value...)
		} else if err := d.copyContent(e, depth+1, nil); err != nil {
			return err.within(strconv.Itoa(i))
		}
	}
	return nil
}

// kept counts a field that was copied. A field at the top level must not have the name of the stored time, meta or exact time.
func (d *Decoder) kept(name []byte, depth int) *DecodeError {
	if depth > 1 {
		return nil
	}
	d.topCount++
	if d.options.isReserved(name) {
		return d.reservedName(string(name))
	}
	return nil
}

// walk goes through an event once. It takes out the values to which the paths lead, and copies the stored object.
func (d *Decoder) walk(event []byte) *DecodeError {
	d.event = event
	top := &d.paths.event
	if top.isRoot {
		d.foundRoot = event
	}
	if top.isStored {
		return d.copyObject(rawbson.Content(event), 1, top)
	}
	if err := d.search(rawbson.Content(event), top); err != nil || d.nullRoot {
		return err
	}
	if d.foundRoot == nil {
		return newError(NotObject, d.paths.root, "the record has no object here, but EVENT_ROOT expects the event here: send the object, skip such records with EVENT_SKIP='!/%s', or correct the setting", d.paths.root)
	}
	if !d.foundStored {
		if array := arrayOn(event, d.paths.stored); array != "" {
			return newError(NotObject, d.paths.stored, "%s, but EVENT_FIELDS expects the fields to store here: correct the setting", array+noWay)
		}
		return newError(NotObject, d.paths.stored, "the event has no object here, but EVENT_FIELDS expects the fields to store here%s: send the object%s, or correct the setting", d.options.elementAdvice(d.paths.stored), d.options.skipAdvice(d.options.Fields))
	}
	return nil
}

// search looks for the paths' values in an object outside of the stored object. It neither stores nor checks the other fields.
func (d *Decoder) search(list []byte, at *node) *DecodeError {
	names := len(d.names)
	for len(list) > 0 {
		var e rawbson.Element
		list = e.Cut(list)
		next := nodeOf(at.children, e.Name)
		if next == nil {
			continue
		}
		d.names = append(d.names, e.Name)
		if next.role != through {
			d.take(e, next)
		} else if err := d.enter(e, next); err != nil {
			return err.within(string(e.Name))
		}
	}
	return d.checkDuplicates(names)
}

// enter continues in a value through which paths lead, outside of the stored object.
func (d *Decoder) enter(e rawbson.Element, at *node) *DecodeError {
	if e.Kind != bson.TypeEmbeddedDocument {
		if d.nullRoot = d.nullRoot || at.onRoot && e.Kind == bson.TypeNull; d.nullRoot || !at.isRoot && !at.isStored {
			return nil
		}
		setting := settingFields
		if at.isRoot {
			setting = settingRoot
		}
		return noObjectAt(e, setting)
	}
	if at.isRoot {
		d.foundRoot = e.Value
	}
	if !at.isStored {
		return d.search(rawbson.Content(e.Value), at)
	}
	d.foundStored = true
	return d.copyObject(rawbson.Content(e.Value), 1, at)
}

// noObjectAt is the error of a value that is no object and should be the root or the stored object.
func noObjectAt(e rawbson.Element, setting string) *DecodeError {
	wayOut := "send an object, or correct the setting"
	switch {
	case e.Kind == bson.TypeArray:
		wayOut = "split the list with EVENT_LIST, and let " + setting + " begin at its elements"
	case e.Kind == bson.TypeString && isJSONStart(rawbson.Text(e.Value)):
		wayOut = "use EVENT_PARSE to read the JSON in the string"
	}
	return newError(NotObject, "", "%s is not an object, but %s expects one: %s", quoteValue(e.Kind, e.Value), setting, wayOut)
}
