package timeseries

import "fmt"

// Error codes of MongoDB that the rules of this package return.
const (
	codeBadValue             int32 = 2
	codeIllegalOperation     int32 = 20
	codeCannotCreateIndex    int32 = 67
	codeInvalidOptions       int32 = 72
	codeIndexOptionsConflict int32 = 85
	codeOutOfRange           int32 = 51024 // a field of a command below or above its bounds
)

// Error is a refusal with the code that MongoDB's own time series collections return in the same case.
type Error struct {
	// Code is MongoDB's error code. Zero means that MongoDB's server has no such case.
	Code int32
	// Message names the field, its value and what to do.
	Message string
}

// Error returns the message, followed by the code's name.
func (e *Error) Error() string {
	if e.Code == 0 {
		return e.Message
	}
	return fmt.Sprintf("%s (%s)", e.Message, e.CodeName())
}

// CodeName returns MongoDB's name of the code, as "InvalidOptions". For a code without a name it returns a text such as
// "Location5346510".
func (e *Error) CodeName() string {
	switch e.Code {
	case codeBadValue:
		return "BadValue"
	case codeIllegalOperation:
		return "IllegalOperation"
	case codeCannotCreateIndex:
		return "CannotCreateIndex"
	case codeInvalidOptions:
		return "InvalidOptions"
	case codeIndexOptionsConflict:
		return "IndexOptionsConflict"
	default:
		return fmt.Sprintf("Location%d", e.Code)
	}
}

func refuse(code int32, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}
