package check

import (
	"fmt"

	"waterwheel/internal/measurement"
)

// asked is what a registry says about the schemas that the records of a sample name.
type asked struct {
	found   bool                  // it has returned a schema
	missing *measurement.SchemaID // the first schema that it does not have. Nil means that it has all.
}

// watch makes options note the answers of their registry.
func (a *asked) watch(o *measurement.Options) {
	ask := o.Ask
	if ask == nil {
		return
	}
	o.Ask = func(id measurement.SchemaID) (measurement.Schema, error) {
		s, err := ask(id)
		switch {
		case err != nil:
		case s.Reason == "":
			a.found = true
		case s.Reason == measurement.UnknownSchema && a.missing == nil:
			a.missing = &id
		}
		return s, err
	}
}

// rightRegistry is what to do about schemas that the registry does not have.
const rightRegistry = "set SCHEMA_REGISTRY_URL to the registry in which the producers register their schemas, or register the missing schemas in this registry"

// stop moves records whose schema is missing from the dead letters to what stops a partition. Like run, it takes a registry that
// has returned no schema of the topic for the wrong one.
func (s *sampler) stop() {
	const reason = string(measurement.UnknownSchema)
	if bad := s.bad[reason]; bad != nil && !s.asked.found && s.asked.missing != nil {
		s.view.Stops = bad
		delete(s.bad, reason)
	}
}

// judgeStop reports records that stop their partition.
func (s *sampler) judgeStop(subject string, found *Findings) {
	if stops := s.view.Stops; stops != nil {
		found.Wrong(subject, rightRegistry, "run would stop the partition of %s (%s): the registry has no schema %s, which this record needs, and has returned no schema of this topic: is SCHEMA_REGISTRY_URL the right registry?",
			stops.From, stops.Reason, s.asked.missing)
	}
}

// schemaless describes records whose schema the registry does not have. Empty means that there are none.
func (e *encodings) schemaless() string {
	if e.noSchema == 0 {
		return ""
	}
	which := "the records name schemas"
	if e.noSchema < e.records {
		which = fmt.Sprintf("%s of %s name schemas", count(e.noSchema), plural(e.records, "record"))
	}
	return which + " that the registry does not have: " + rightRegistry
}
