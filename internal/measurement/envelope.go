package measurement

import (
	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries/rawbson"
)

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
