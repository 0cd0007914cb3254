package check

import (
	"cmp"
	"slices"
	"strings"

	"waterwheel/internal/measurement"
)

// base returns the current options with the sample's encoding, and no paths.
func (p *proposer) base() measurement.Options {
	o := absolute(p.current)
	o.Compression, o.Format, o.Framing = p.encodings.compression(), p.encodings.format(), p.encodings.framing()
	if o.Framing == measurement.NoFraming && p.framed*2 > p.keyed && (o.Format == measurement.JSON || o.Format == measurement.ExtJSON) {
		o.Framing = measurement.AutoFrame
	}
	o.Parse, o.List, o.FieldName, o.FieldValue, o.Rename, o.Numbers = nil, nil, "", "", nil, ""
	o.TimeField, o.TimeFormat, o.Root, o.Fields, o.Drop = "", "auto", "", "", nil
	o.MetaFrom, o.MetaField, o.MetaFields = measurement.MetaFromValue, "", nil
	return o
}

// isInEffect reports whether options read events in the same way as those in effect.
func (p *proposer) isInEffect(o measurement.Options) bool {
	now := p.current
	stages := slices.Equal(o.Parse, now.Parse) && slices.Equal(o.List, now.List) && slices.Equal(o.Skip, now.Skip) && slices.Equal(o.Rename, now.Rename) &&
		o.FieldName == now.FieldName && o.FieldValue == now.FieldValue && cmp.Or(o.Numbers, measurement.NumbersInJSON) == cmp.Or(now.Numbers, measurement.NumbersInJSON)
	return stages && o.Format == cmp.Or(now.Format, measurement.JSON) && o.Framing == cmp.Or(now.Framing, measurement.NoFraming) &&
		o.Compression == cmp.Or(now.Compression, measurement.NoCompression) && o.Root == now.Root && o.Fields == now.Fields &&
		o.TimeField == now.TimeField && o.TimeFormat == cmp.Or(now.TimeFormat, "auto") && o.MetaFrom == cmp.Or(now.MetaFrom, measurement.MetaFromValue) &&
		o.MetaField == now.MetaField && slices.Equal(sorted(o.MetaFields), sorted(now.MetaFields)) && slices.Equal(sorted(o.Drop), sorted(now.Drop))
}

func sorted(list []string) []string { return slices.Sorted(slices.Values(list)) }

// settings returns the options as settings, without those that are both the default and in effect.
func (p *proposer) settings(o measurement.Options) (list []Setting) {
	add := func(name, value, current, fallback string) {
		if value != fallback || value != current {
			list = append(list, Setting{name, value})
		}
	}
	now, own := p.current, ownPaths(o.Format)
	if before := ownPaths(now.Format); own != before { // The defaults of a format are not an operator's choice.
		now.TimeField = instead(now.TimeField, before.time, own.time)
		now.Fields = instead(now.Fields, before.fields, own.fields)
		if metas := strings.Join(now.MetaFields, ","); metas == before.metas && (now.MetaField == "" || now.MetaField == "meta") {
			now.MetaFields, now.MetaField = strings.Split(own.metas, ","), ""
		}
	}
	add("EVENT_FORMAT", string(o.Format), cmp.Or(string(now.Format), "json"), "json")
	add("EVENT_COMPRESSION", string(o.Compression), cmp.Or(string(now.Compression), "none"), "none")
	add("EVENT_FRAMING", string(o.Framing), instead(cmp.Or(string(now.Framing), "none"), ownFraming(now), ownFraming(o)), ownFraming(o))
	add("EVENT_PARSE", strings.Join(o.Parse, ","), strings.Join(now.Parse, ","), "")
	add("EVENT_LIST", strings.Join(o.List, ","), strings.Join(now.List, ","), "")
	add("EVENT_SKIP", strings.Join(o.Skip, ","), strings.Join(now.Skip, ","), "")
	add("EVENT_FIELD_NAME", o.FieldName, now.FieldName, "")
	add("EVENT_FIELD_VALUE", o.FieldValue, now.FieldValue, "")
	add("EVENT_RENAME", strings.Join(o.Rename, ","), strings.Join(now.Rename, ","), "")
	add("EVENT_ROOT", o.Root, now.Root, "")
	add("EVENT_TIME_FIELD", o.TimeField, now.TimeField, own.time)
	add("EVENT_TIME_FORMAT", cmp.Or(o.TimeFormat, "auto"), cmp.Or(now.TimeFormat, "auto"), "auto")
	add("EVENT_META_FROM", cmp.Or(string(o.MetaFrom), "value"), cmp.Or(string(now.MetaFrom), "value"), "value")
	if o.MetaField != "" {
		add("EVENT_META_FIELD", o.MetaField, now.MetaField, "meta")
	} else if now.MetaField != "" && now.MetaField != "meta" {
		add("EVENT_META_FIELD", "", now.MetaField, "")
	}
	add("EVENT_META_FIELDS", strings.Join(o.MetaFields, ","), strings.Join(now.MetaFields, ","), own.metas)
	add("EVENT_FIELDS", o.Fields, now.Fields, own.fields)
	add("EVENT_DROP", strings.Join(o.Drop, ","), strings.Join(now.Drop, ","), "")
	add("EVENT_NUMBERS", cmp.Or(string(o.Numbers), "json"), cmp.Or(string(now.Numbers), "json"), "json")
	return list
}

// defaultPaths are the default paths of a format.
type defaultPaths struct{ time, metas, fields string }

func ownPaths(f measurement.Format) defaultPaths {
	o, known := measurement.DefaultPaths(f)
	if !known {
		return defaultPaths{time: "time"}
	}
	return defaultPaths{o.TimeField, strings.Join(o.MetaFields, ","), o.Fields}
}

// ownFraming returns the default framing of options.
func ownFraming(o measurement.Options) string {
	if o.NeedsRegistry() {
		return string(measurement.Confluent)
	}
	return string(measurement.NoFraming)
}

// instead returns value, or other if value equals of.
func instead(value, of, other string) string {
	if value == of {
		return other
	}
	return value
}
