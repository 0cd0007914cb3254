package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Content is a binary file that a setting names by its path. It is read together with the settings.
type Content struct{ Path, Bytes string }

// UnmarshalText reads the file of a path.
func (c *Content) UnmarshalText(path []byte) error {
	content, err := os.ReadFile(string(path))
	if wrong, is := errors.AsType[*fs.PathError](err); is {
		return fmt.Errorf("cannot be read: %w", wrong.Err)
	}
	if err != nil {
		return err
	}
	*c = Content{string(path), string(content)}
	return nil
}

// String returns the path.
func (c Content) String() string { return c.Path }
