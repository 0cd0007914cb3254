package timeseries

import "fmt"

// Codes of MongoDB that the rules of this package answer with.
const (
	codeBadValue             int32 = 2
	codeIllegalOperation     int32 = 20
	codeCannotCreateIndex    int32 = 67
	codeInvalidOptions       int32 = 72
	codeIndexOptionsConflict int32 = 85
	codeOutOfRange           int32 = 51024 // a field of a command below or above its bounds
)

// Error is a refusal with the code that MongoDB's own time series collections answer in the same case.
type Error struct {
	// Code is MongoDB's error code, 0 for a case that its server cannot meet.
	Code int32
	// Message names the field, its value and the way out.
	Message string
}

// Error is the message, followed by the code's name.
func (e *Error) Error() string {
	if e.Code == 0 {
		return e.Message
	}
	return fmt.Sprintf("%s (%s)", e.Message, e.CodeName())
}

// CodeName is MongoDB's name of the code: "InvalidOptions", or "Location5346510" for a code without a name of its own.
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
