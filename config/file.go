package config

import (
	"errors"
	"fmt"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// MaxFileLen is the largest settings file, in bytes. A longer one is somebody's data.
const MaxFileLen = 1 << 20

// readFile takes the settings of a YAML file. It looks at the parsed tree rather than decode it into a struct: so every fault
// has its line, and a value is never bent into the type it should have had.
func (l *loader) readFile(name string, data []byte) {
	if len(data) > MaxFileLen {
		l.fault("", name, fmt.Sprintf("%d bytes are too many for a settings file: allowed are %d", len(data), MaxFileLen))
		return
	}
	file, err := parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		l.syntaxFault(name, err)
		return
	}
	used := 0
	for _, doc := range file.Docs {
		if doc.Body == nil {
			continue
		}
		if used++; used > 1 {
			l.fault("", at(name, doc.Body), "a second document: allowed is one")
			return
		}
		l.readDocument(name, doc.Body)
	}
}

func (l *loader) syntaxFault(name string, err error) {
	var typed yaml.Error
	if errors.As(err, &typed) && typed.GetToken() != nil {
		l.fault("", fmt.Sprintf("%s:%d", name, typed.GetToken().Position.Line), "not YAML: "+typed.GetMessage())
		return
	}
	l.fault("", name, "not YAML: "+err.Error())
}

// readDocument takes the settings of the file's one mapping.
func (l *loader) readDocument(name string, body ast.Node) {
	switch body.Type() {
	case ast.NullType, ast.CommentType:
		return
	}
	mapping, ok := body.(ast.MapNode)
	if !ok {
		l.fault("", at(name, body), "the file is "+describe(body)+": allowed are lines of `key: value`")
		return
	}
	seen := map[string]string{}
	for it := mapping.MapRange(); it.Next(); {
		key, value := it.Key(), it.Value()
		where := at(name, key)
		text, ok := scalar(key)
		if !ok {
			l.fault("", where, "a key is "+describe(key)+": allowed is the name of a setting")
			continue
		}
		if first, twice := seen[text]; twice {
			l.fault(text, where, "set a second time: "+first+" sets it too")
			continue
		}
		seen[text] = where
		k := l.keys[text]
		if k == nil {
			l.fault(text, where, "no such setting"+l.suggestKey(text))
			continue
		}
		l.readValue(k, name, where, value)
	}
}

func (l *loader) suggestKey(text string) string {
	if k := l.nearest(text); k != nil {
		return ": did you mean " + k.Name + "?"
	}
	return ": `mortarmq config show` lists them"
}

// readValue takes one value, checking its shape against the key's.
func (l *loader) readValue(k *Key, name, where string, value ast.Node) {
	if k.List {
		values, bad := listValues(k, value)
		if bad != nil {
			l.fault(k.Name, at(name, bad), describe(bad)+" stands in a list of texts: allowed is "+k.Allowed)
			return
		}
		l.set(k, where, values)
		return
	}
	if !fits(k.shape, value) {
		l.fault(k.Name, where, fmt.Sprintf("the value is %s, not %s: allowed is %s", describe(value), k.shape, k.Allowed))
		return
	}
	text, _ := scalar(value)
	l.set(k, where, []string{text})
}

// listValues returns the texts of a list, or the node that is none.
func listValues(k *Key, value ast.Node) (values []string, bad ast.Node) {
	seq, ok := value.(*ast.SequenceNode)
	if !ok {
		text, ok := scalar(value)
		if !ok || !fits(shapeText, value) {
			return nil, value
		}
		return splitList(k, text), nil
	}
	for _, v := range seq.Values {
		text, ok := scalar(v)
		if !ok || !fits(shapeText, v) {
			return nil, v
		}
		values = append(values, text)
	}
	return values, nil
}

// fits reports whether a node may stand where the shape is wanted.
func fits(s shape, n ast.Node) bool {
	switch n.Type() {
	case ast.IntegerType:
		return s == shapeInteger || s == shapeBytes || s == shapeText
	case ast.FloatType: // a digest of digits with an e in it looks like one
		return s == shapeText
	case ast.StringType, ast.LiteralType:
		return s == shapeText || s == shapeBytes
	case ast.BoolType:
		return s == shapeBool
	default:
		return false
	}
}

// scalar returns the text of a single value as it was written, quotes resolved.
func scalar(n ast.Node) (string, bool) {
	switch v := n.(type) {
	case *ast.StringNode:
		return v.Value, true
	case *ast.LiteralNode:
		return v.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return n.GetToken().Value, true
	default:
		return "", false
	}
}

// describe names what a node is, for people.
func describe(n ast.Node) string {
	switch n.Type() {
	case ast.NullType:
		return "empty"
	case ast.BoolType:
		return "true or false"
	case ast.IntegerType:
		return "an integer"
	case ast.FloatType, ast.InfinityType, ast.NanType:
		return "a fraction"
	case ast.StringType, ast.LiteralType:
		return "text"
	case ast.MappingType, ast.MappingValueType:
		return "a mapping"
	case ast.SequenceType:
		return "a list"
	case ast.AliasType, ast.AnchorType, ast.MergeKeyType:
		return "an anchor or alias"
	default:
		return "a " + n.Type().String()
	}
}

// at returns file:line of a node.
func at(name string, n ast.Node) string {
	if t := n.GetToken(); t != nil && t.Position != nil {
		return fmt.Sprintf("%s:%d", name, t.Position.Line)
	}
	return name
}
