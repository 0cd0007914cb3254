package figure

// Axis is one axis of a panel.
type Axis struct {
	// Name is the name of the quantity, with its unit.
	Name string
	// Log makes the axis logarithmic. All values along it must be above zero.
	Log bool
}

// Point is a point in a panel.
type Point struct{ X, Y float64 }

// Line connects points, from left to right. The legend shows its name, unless the name is empty.
type Line struct {
	Name   string
	Points []Point
}

// Panel is one drawing. A linear vertical axis begins at zero.
type Panel struct {
	Title string
	X, Y  Axis
	Lines []Line
}
