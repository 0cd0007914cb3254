package sink

// What tests outside of the package look at.
var (
	PortablePipeline    = portablePipeline
	InternalPipeline    = internalPipeline
	Measurements        = unpacked
	CompareMeasurements = compareMeasurements
)
