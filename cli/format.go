package cli

import (
	"fmt"
	"strconv"
)

// lineFormat is a compiled --format: literal bytes and fields in turn.
type lineFormat []formatPart

// formatPart is literal when field is 0.
type formatPart struct {
	literal string
	field   byte
}

// record is what a format can print of a message.
type record struct {
	topic     string
	partition uint16
	sequence  uint64
	attempt   uint16
	key       []byte
	value     []byte
}

// parseFormat compiles a --format. %t topic, %p partition, %s sequence, %k key,
// %v value, %a attempt, %% a percent sign; \t, \n, \r, \0 and \\ as in C.
func parseFormat(s string) (lineFormat, error) {
	var out lineFormat
	literal := []byte{}
	for i := 0; i < len(s); i++ {
		if s[i] != '%' && s[i] != '\\' {
			literal = append(literal, s[i])
			continue
		}
		sign := s[i]
		if i++; i == len(s) {
			return nil, usagef("--format ends in a lone %c: write %c%c for the character itself", sign, sign, sign)
		}
		if sign == '\\' {
			c, ok := map[byte]byte{'t': '\t', 'n': '\n', 'r': '\r', '0': 0, '\\': '\\'}[s[i]]
			if !ok {
				return nil, usagef(`--format: \%c is not known: allowed are \t \n \r \0 \\`, s[i])
			}
			literal = append(literal, c)
			continue
		}
		switch s[i] {
		case '%':
			literal = append(literal, '%')
		case 't', 'p', 's', 'k', 'v', 'a':
			if len(literal) > 0 {
				out = append(out, formatPart{literal: string(literal)})
				literal = literal[:0]
			}
			out = append(out, formatPart{field: s[i]})
		default:
			return nil, usagef("--format: %%%c is not known: allowed are %%t topic, %%p partition, %%s sequence, %%k key, %%v value, %%a attempt, %%%%", s[i])
		}
	}
	if len(literal) > 0 {
		out = append(out, formatPart{literal: string(literal)})
	}
	return out, nil
}

// append appends a message in this format. Key and value are written as they are.
func (f lineFormat) append(dst []byte, r *record) []byte {
	for _, p := range f {
		switch p.field {
		case 0:
			dst = append(dst, p.literal...)
		case 't':
			dst = append(dst, r.topic...)
		case 'p':
			dst = strconv.AppendUint(dst, uint64(r.partition), 10)
		case 's':
			dst = strconv.AppendUint(dst, r.sequence, 10)
		case 'a':
			dst = strconv.AppendUint(dst, uint64(r.attempt), 10)
		case 'k':
			dst = append(dst, r.key...)
		case 'v':
			dst = append(dst, r.value...)
		default:
			panic(fmt.Sprintf("cli: format field %q was never parsed", p.field))
		}
	}
	return dst
}
