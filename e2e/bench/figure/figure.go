package figure

// Axis is one side of a panel.
type Axis struct {
	// Name with the unit.
	Name string
	// Log: each step is so many times the one before. All values along it must be above zero.
	Log bool
}

// Point is a place in a panel.
type Point struct{ X, Y float64 }

// Line goes through points, from left to right. Its name is in the legend unless it is empty.
type Line struct {
	Name   string
	Points []Point
}

// Panel is one drawing. A vertical axis that is not logarithmic begins at zero.
type Panel struct {
	Title string
	X, Y  Axis
	Lines []Line
}
