# Answers each request with the names of the customers in the database at DATABASE_URL.
import http.server, os, subprocess

class Customers(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        query = "SELECT string_agg(name, ',' ORDER BY name) FROM customers"
        told = subprocess.run(["psql", "-tAc", query, os.environ["DATABASE_URL"]], capture_output=True, text=True)
        self.send_response(500 if told.returncode else 200)
        self.end_headers()
        self.wfile.write((told.stdout or told.stderr).strip().encode())

http.server.ThreadingHTTPServer(("", 8080), Customers).serve_forever()
